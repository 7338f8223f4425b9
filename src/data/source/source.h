// What a dataset is made from. A source is one file; a reader turns it, or a range of it, into records in order: each a
// document's text, the token ids that another program made of it, or an array of counts.
//
// A format is a row in source.cpp (its name, how it is recognised) and a SourceReader behind open_source. Readers know
// nothing of tokenizers, splits, shards and policies for bad records: they say what a record is, and what is wrong with
// it. The same file and rules give the same records, whatever the ranges it was cut into.
#pragma once

#include <cstdint>
#include <limits>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/file.h"
#include "data/formats/label_weights.h"
#include "data/formats/spike_array.h"

namespace hearth::data {

enum class Format {
  kText,     // the file is one document, or several of about ReadRules::document_bytes
  kJsonl,    // a JSON object a line
  kIndexed,  // token ids: NAME.bin, with NAME.idx beside it
  kNpy,      // a 2-D array of counts, with a metadata.jsonl beside it
  kParquet,  // a row a record: text or token ids
  kArrow,    // Arrow IPC, file or stream: the same
};
enum class Compression { kNone, kGzip, kZstd };

// "text", "gzip"; stored in manifests: never change.
std::string_view format_name(Format format);
std::string_view compression_name(Compression compression);
std::vector<std::string> format_names();     // all, for help and errors
Format parse_format(std::string_view name);  // throws user_error
Compression parse_compression(std::string_view name);
// Whether readers of the format may give ids instead of text.
bool may_give_ids(Format format);
// Whether a record's position is a number of a row or sequence, instead of a byte of the text.
bool counts_rows(Format format);

// A file as it was when it was found.
struct FileState {
  std::string real_path;
  int64_t size_bytes = 0, modified_ns = 0;
  bool operator==(const FileState&) const = default;
};

struct SourceFile {
  std::string path;  // as found, through links
  std::string real_path;
  int64_t size_bytes = 0;
  std::string hash;  // XXH3-128 of the content; empty: not read (another part of the build reads it)
  Format format = Format::kText;
  Compression compression = Compression::kNone;
  int64_t modified_ns = 0;  // when it was found; not stored
  // Of an array, where they stand beside the file; else null. Part of `hash`, not stored.
  std::shared_ptr<const ArrayLabels> labels{};
  std::string label_file{};  // of token files: the one with their labels (label_file.h), part of `hash`; empty: none
  std::vector<FileState> beside{};  // what else its records are read from: indices, labels; not stored
  bool operator==(const SourceFile&) const = default;
};

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

// What can be wrong with a record. The names are stored in manifests: never change.
enum class Problem {
  kNone,
  kMalformed,   // the record is not of its format
  kMissingKey,  // it has no text
  kWrongType,   // its text is none
  kNotUnicode,  // its text has parts that are no Unicode; Record::text holds it with U+FFFD in their place
  kTooLong,     // more than ReadRules allow
  kUnreadable,  // the rest of the file cannot be read: cut short, or damaged
};
inline constexpr int kNumProblems = 7;
std::string_view problem_name(Problem problem);  // "malformed"

struct Record {
  // Where it starts: a byte of the file's (uncompressed) text, or the number of its row or sequence, counted from 0;
  // the format decides which.
  int64_t position = 0;
  std::string_view text;          // any bytes; empty where the record is something else
  std::span<const uint32_t> ids;  // instead of the text, where is_ids
  bool is_ids = false;
  WeightRuns weights;                       // of the text's bytes or of the ids; empty: each is 1
  std::shared_ptr<const SpikeArray> array;  // instead of text and ids; else null. With a problem: its labels at least
  // Null: the views above are good until the next call of next(). Otherwise as long as somebody holds it.
  std::shared_ptr<const void> owner;
  bool is_utf8 = false;  // `text` is known to be; otherwise somebody else looks

  Problem problem = Problem::kNone;
  std::string why;    // where there is a problem, what it is, for people: "it has no key \"text\""
  std::string fix;    // how to read it nevertheless, where that is not to correct it; empty: there is no such way
  std::string place;  // where, for people, behind the file's name: "line 17", "row 3"
};

class SourceReader {
 public:
  virtual ~SourceReader() = default;
  // Fills `record` with the next one; false at the end. A record with a problem is no end: the call after it gives the
  // following one (after kUnreadable there is none). Throws for failures of the disk alone.
  virtual bool next(Record& record) = 0;
  // Bytes of the range, as they lie on disk, that have been read so far: for a progress bar.
  virtual int64_t bytes_read() const = 0;
};

struct Recognised {
  Format format = Format::kText;
  Compression compression = Compression::kNone;
};
// By the file's content (and its name, where that says JSONL), or as `rules` say. Throws system_error for a file that
// cannot be opened.
Recognised recognise(const Path& path, const ReadRules& rules);

// Whether the file may be read in ranges.
bool can_be_cut(const SourceFile& file);

// Throws user_error or damaged() for a file that cannot be read at all.
std::unique_ptr<SourceReader> open_source(const SourceFile& file, const ReadRules& rules, SourceRange range = {});

// Throws user_error for rules that make no sense; and for weights by a key that a file of this format cannot have.
void check_read_rules(const ReadRules& rules);
void check_weight_keys(const SourceFile& file, const ReadRules& rules);

}  // namespace hearth::data
