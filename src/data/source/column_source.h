// Parquet and Arrow IPC files (both the file and the stream format) as a source.
#pragma once

#include <memory>

#include "data/source/source.h"

namespace hearth::data {

// A record is a row: what the columns that rules.text_keys name hold. A dotted key goes into structs, a list on the way
// stands for its elements, and several texts are joined, all as for JSON (json_text.h). The type of the column decides
// what it is. Positions are numbers of rows in the file.
//
//   strings, bytes              text
//   lists of integers           token ids, taken as they are
//   lists of lists of integers  an array of counts (0 to 255), a list a neuron; what it is a recording of stands in the
//                               columns subject_id, session_id, segment_id and source_dataset (strings or integers), as
//                               far as there are such. So the neural-data repositories store it: spike_counts is
//                               Array2D of `datasets`, [neurons, bins]
//
// rules.labels_key and weights_key name columns of the same rows: what they weigh (columnar/weights.h).
//
// Throws user_error for a file that has no such column, or one of another type. Null is kMissingKey; an array
// that is no rectangle, or holds something else than counts, is kWrongType; bytes that are not UTF-8 are kNotUnicode,
// as in JSON. A damaged file gives its rows up to the damage, then kUnreadable.
//
// Ranges are of the file; a row group (Parquet) or record batch (Arrow) belongs to the one in which it starts.
std::unique_ptr<SourceReader> open_column_source(const SourceFile& file, const ReadRules& rules, SourceRange range);

}  // namespace hearth::data
