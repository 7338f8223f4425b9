// SPDX-License-Identifier: Apache-2.0
// The readers of each format. Call open_source, which chooses one. Files of text, JSON, CSV and .npy are read whole,
// whatever the range.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "data/source/source.h"

namespace hearth::data {

// Plain text: any file. One record per file. With rules.document_bytes > 0 a document ends at the first line end at or
// after so many bytes. Positions are bytes. An empty file has no record. Bytes are kept unchanged, but a byte order
// mark (UTF-8) is left out. A compressed file is held in memory, and may have at most rules.max_record_bytes.
std::unique_ptr<SourceReader> open_text_source(const SourceFile& file, const ReadRules& rules, SourceRange range);

// JSON, one object per line, plain or compressed. A record's text is that of the object at rules.text_keys
// (json_text.h). Positions are bytes of the uncompressed lines. Blank lines are not records. Uncompressed files may be
// read in ranges.
std::unique_ptr<SourceReader> open_jsonl_source(const SourceFile& file, const ReadRules& rules, SourceRange range);

// JSON that is not one object per line: the objects of an array, or objects one after another, each over any lines.
// Texts and positions are those of JSON lines. Another value in an object's place is kMalformed. Where the text between
// two values is not JSON, the rest of the file is kUnreadable.
std::unique_ptr<SourceReader> open_json_source(const SourceFile& file, const ReadRules& rules, SourceRange range);

// Tables of text with a header: comma-separated values, or values between tabs, semicolons or bars. A record is a row:
// its text is in the columns of rules.text_keys, joined as for JSON. The first row names the columns. Positions are
// bytes of the uncompressed text. A row with another number of fields than the header is kMalformed. An open quote
// makes the rest of the file kUnreadable. Bytes that are not UTF-8 are kNotUnicode. An empty field is an empty text.
//
// Throws user_error for a file without such a column, or with two of its name.
std::unique_ptr<SourceReader> open_csv_source(const SourceFile& file, const ReadRules& rules, SourceRange range);

// The separator of a table that begins with `text`; nothing for other text. A name decides (.csv, .tsv, .tab), whatever
// the columns are. With `by_content`, the content decides, too: the first line needs several columns with all of
// `keys`, and the next lines as many columns. If several separators fit, the one that finds `keys` counts, then the one
// with the most columns.
std::optional<char> csv_separator(std::string_view text, const Path& path, const std::vector<std::string>& keys,
                                  bool by_content);

// An array of spike counts: a .npy file of uint8, [neurons, bins]. Its labels are in a metadata.jsonl in its folder
// (recordings/labels_file.h).
std::unique_ptr<SourceReader> open_npy_source(const SourceFile& file, const ReadRules& rules, SourceRange range);

// Token files of Megatron and GPT-NeoX (indexed_file.h). `file` is NAME.bin. A record is a sequence, as in GPT training
// of both programs; its position is its number. The ids are taken unchanged; their weights come from file.label_file.
// Ranges are of the .bin file.
std::unique_ptr<SourceReader> open_indexed_source(const SourceFile& file, const ReadRules& rules, SourceRange range);

// Parquet and Arrow IPC files (both the file and the stream format). A record is a row: its content in the columns of
// rules.text_keys. A dotted key goes into structs, a list on the path means all its elements, and several texts are
// joined, as for JSON (json_text.h). The column's type decides the record's content. Positions are numbers of rows in
// the file.
//
//   strings, bytes              text
//   lists of integers           token ids, taken unchanged
//   lists of lists of integers  an array of counts (0 to 255), one list per neuron. Its labels are in the columns
//                               subject_id, session_id, segment_id and source_dataset (strings or integers), if these
//                               exist. Source: the neural-data repositories, whose spike_counts is Array2D of
//                               `datasets`, [neurons, bins]
//
// rules.labels_key and weights_key name columns of the same rows with their weights (columnar/numbers.h).
//
// Throws user_error for a file without such a column, or with one of another type. Null is kMissingKey. An array that
// is no rectangle, or has values that are no counts, is kWrongType. Bytes that are not UTF-8 are kNotUnicode, as in
// JSON. A damaged file gives its rows up to the damage, then kUnreadable.
//
// Ranges are of the file; a row group (Parquet) or record batch (Arrow) belongs to the range in which it starts.
std::unique_ptr<SourceReader> open_column_source(const SourceFile& file, const ReadRules& rules, SourceRange range);

}  // namespace hearth::data
