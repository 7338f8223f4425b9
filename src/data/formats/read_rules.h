// Which records a file holds: its format, what is read from each row, and what can be wrong with one. The same file and
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
  kJsonl,    // a JSON object a line
  kIndexed,  // token ids: NAME.bin, with NAME.idx beside it
  kNpy,      // a 2-D array of counts, with a metadata.jsonl beside it
  kParquet,  // a row a record: text or token ids
  kArrow,    // Arrow IPC, file or stream: the same
};
// "text", "bin-idx"; stored in manifests: never change.
std::string_view format_name(Format format);
std::vector<std::string> format_names();     // all, for help and errors
Format parse_format(std::string_view name);  // throws user_error
// Whether readers of the format may give ids instead of text.
bool may_give_ids(Format format);
// Whether a record's position is a number of a row or sequence, instead of a byte of the text.
bool counts_rows(Format format);

// What decides the records of a file, whatever becomes of them later. Part of a dataset's identity.
struct ReadRules {
  std::string format;          // a format's name for every file; empty: what each file's content says
  int64_t document_bytes = 0;  // longer text files are cut at line ends into documents of about this size; 0: never
  // Where the text of a row is: see json_text.h and column_source.h. Several texts are joined with text_join between
  // them, and before the first one too if join_first is true. Empty: a build and those who read a corpus for a
  // tokenizer put default_text_key() there; readers want one.
  std::vector<std::string> text_keys = {"text"};
  std::string text_join = "\n\n";
  bool join_first = false;
  int64_t max_record_bytes = 256 << 20;  // of a line, and of a compressed text
  std::string dialect;                   // of token files: see indexed_file.h; empty: that of each
  int64_t vocab_size = 0;                // larger ids of token sources are a problem; 0: not known. A build fills it in
  // What tokens weigh as labels (label_weights.h); empty: each 1. Where both are given, the products.
  std::vector<std::string> loss_keys{};  // of text_keys: only tokens that begin in the texts there count
  std::string labels_key{};  // of rows of ids: a list with each id again, or kIgnore where it does not count
  std::string
      weights_key{};  // of rows of ids a list of numbers or truth values, one an id; of texts one of them for all
  bool operator==(const ReadRules&) const = default;
};

// Where the rows of a table have what a tokenizer of text, or of arrays, wants: "text", "spike_counts".
std::string default_text_key(bool arrays);

// Bytes [begin, end) of the file as it lies on disk. A record belongs to the range in which it starts.
struct SourceRange {
  int64_t begin = 0;
  int64_t end = std::numeric_limits<int64_t>::max();
};
// Throws user_error for rules that make no sense.
void check_read_rules(const ReadRules& rules);

// What can be wrong with a record. The names are stored in manifests: never change.
enum class Problem {
  kNone,
  kMalformed,   // the record is not of its format
  kMissingKey,  // it has no text
  kWrongType,   // its text is something else
  kNotUnicode,  // its text has parts that are no Unicode; Record::text holds it with U+FFFD in their place
  kTooLong,     // more than ReadRules allow
  kUnreadable,  // the rest of the file cannot be read: cut short, or damaged
};
inline constexpr int kNumProblems = 7;
std::string_view problem_name(Problem problem);  // "malformed"

}  // namespace hearth::data
