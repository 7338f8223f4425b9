// Parquet and Arrow IPC files (both the file and the stream format) as a source.
#pragma once

#include <memory>

#include "data/source.h"

namespace hearth::data {

// A record is a row: the text or the token ids in the columns that rules.text_keys name. A dotted key goes into
// structs, a list on the way stands for its elements, and several texts are joined, all as for JSON (json_text.h). The
// type of the column decides what it is: strings and bytes are text, lists of integers are ids, taken as they are.
// Positions are numbers of rows in the file.
//
// Throws user_error for a file that has no such column, or one that is neither. Null is kMissingKey; bytes that are not
// UTF-8 are kNotUnicode, as in JSON. A damaged file gives its rows up to the damage, then kUnreadable.
//
// Ranges are of the file; a row group (Parquet) or record batch (Arrow) belongs to the one in which it starts.
std::unique_ptr<SourceReader> open_column_source(const SourceFile& file, const ReadRules& rules, SourceRange range);

}  // namespace hearth::data
