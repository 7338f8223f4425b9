// SPDX-License-Identifier: Apache-2.0
// How a file's records are read: its format, the fields of each row, and the problems of a record. The same file and
// rules give the same records.
#pragma once

#include <cstdint>
#include <limits>
#include <string>
#include <string_view>
#include <vector>

namespace hearth::data {

enum class Format {
  kText,     // the file is one document, or several of about ReadRules::document_bytes
  kJsonl,    // one JSON object per line
  kIndexed,  // token ids: NAME.bin and NAME.idx in the same folder
  kNpy,      // a 2-D array of counts, and a metadata.jsonl in the same folder
  kParquet,  // one record per row: text, token ids or counts
  kArrow,    // Arrow IPC, file or stream; the same records
  kJson,     // JSON objects in an array, or one after another over any lines
  kCsv,      // rows of fields between commas, tabs, semicolons or bars, below a row of names
};
// "text", "bin-idx"; stored in manifests: never change.
std::string_view format_name(Format format);
std::vector<std::string> format_names();     // all, for help and errors
Format parse_format(std::string_view name);  // throws user_error
// Whether readers of the format may give ids instead of text.
bool may_give_ids(Format format);
// Whether records have keys: fields or columns with names.
bool has_keys(Format format);
// Whether a record's position is the number of its row or sequence. Otherwise it is a byte of the text.
bool counts_rows(Format format);

// Everything that decides a file's records. Part of a dataset's identity.
struct ReadRules {
  std::string format;          // of every file, by name; empty: found from each file's content
  int64_t document_bytes = 0;  // longer text files are cut at line ends into documents of about this size; 0: never
  // Keys of a row's text: see json_text.h and source/readers.h. Several texts are joined with text_join between them,
  // and also before the first one if join_first is true. Readers need a key: builds and readers of a tokenizer's corpus
  // replace an empty list by default_text_key().
  std::vector<std::string> text_keys = {"text"};
  std::string text_join = "\n\n";
  bool join_first = false;
  int64_t max_record_bytes = 256 << 20;  // of a line, and of a compressed text
  std::string dialect;                   // of token files: see indexed_file.h; empty: found from each file
  int64_t vocab_size = 0;                // larger ids of token sources are a problem; 0: unknown. A build sets it
  // Weights of tokens as labels (label_weights.h); empty: each is 1. If two of these keys are given, their weights are
  // multiplied.
  std::vector<std::string> loss_keys{};  // of text_keys: only tokens that begin in their texts count
  std::string labels_key{};   // of rows of ids: a list with each id again, or kIgnore for an id that does not count
  std::string weights_key{};  // of rows of ids: a list of numbers or truth values, one per id; of texts: one for all
  bool operator==(const ReadRules&) const = default;
};

// Default key of a table's rows for a tokenizer of text or of arrays: "text", "spike_counts".
std::string default_text_key(bool arrays);

// Bytes [begin, end) of the file on disk. A record belongs to the range in which it starts.
struct SourceRange {
  int64_t begin = 0;
  int64_t end = std::numeric_limits<int64_t>::max();
};
// Throws user_error for invalid rules.
void check_read_rules(const ReadRules& rules);

// Problems of a record. The names are stored in manifests: never change.
enum class RecordProblem {
  kNone,
  kMalformed,   // the record is not of its format
  kMissingKey,  // it has no text
  kWrongType,   // its text has another type
  kNotUnicode,  // its text is not all Unicode; Record::text has U+FFFD in place of the invalid parts
  kTooLong,     // it exceeds a limit of ReadRules
  kUnreadable,  // the rest of the file cannot be read: cut short, or damaged
};
inline constexpr int kNumProblems = 7;
std::string_view problem_name(RecordProblem problem);  // "malformed"

}  // namespace hearth::data
