// Parquet and Arrow IPC files (both the file and the stream format) as a source.
#pragma once

#include <memory>

#include "data/source/source.h"

namespace hearth::data {

// A record is a row: its content in the columns of rules.text_keys. A dotted key goes into structs, a list on the path
// means all its elements, and several texts are joined, as for JSON (json_text.h). The column's type decides the
// record's content. Positions are numbers of rows in the file.
//
//   strings, bytes              text
//   lists of integers           token ids, taken unchanged
//   lists of lists of integers  an array of counts (0 to 255), one list per neuron. Its labels are in the columns
//                               subject_id, session_id, segment_id and source_dataset (strings or integers), if these
//                               exist. Source: the neural-data repositories, whose spike_counts is Array2D of
//                               `datasets`, [neurons, bins]
//
// rules.labels_key and weights_key name columns of the same rows with their weights (columnar/weights.h).
//
// Throws user_error for a file without such a column, or with one of another type. Null is kMissingKey. An array that
// is no rectangle, or has values that are no counts, is kWrongType. Bytes that are not UTF-8 are kNotUnicode, as in
// JSON. A damaged file gives its rows up to the damage, then kUnreadable.
//
// Ranges are of the file; a row group (Parquet) or record batch (Arrow) belongs to the range in which it starts.
std::unique_ptr<SourceReader> open_column_source(const SourceFile& file, const ReadRules& rules, SourceRange range);

}  // namespace hearth::data
