// SPDX-License-Identifier: Apache-2.0
// The files from which a dataset is built. A source is one file. A reader turns it, or a range of it, into records, in
// order. A record is a document's text, token ids from another program, or an array of counts.
//
// A format is a row in formats/read_rules.cpp, a test in recognise.cpp, and a SourceReader behind open_source. Readers
// know nothing of tokenizers, splits, shards and policies for bad records: they give records and their problems. The
// same file and rules give the same records, for any ranges.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/error.h"
#include "base/file.h"
#include "data/formats/byte_stream.h"
#include "data/formats/label_weights.h"
#include "data/formats/read_rules.h"
#include "recordings/spike_array.h"

namespace hearth::data {

// A file's state when it was found.
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
  // Of an array: its labels from a file in the same folder; else null. Part of `hash`, not stored.
  std::shared_ptr<const recordings::ArrayLabels> labels{};
  std::string label_file{};         // of token files: their label file (label_file.h), part of `hash`; empty: no file
  std::vector<FileState> beside{};  // other files that its records need: indices, labels; not stored
  bool any_bytes = false;           // a text that the user wants to read whatever its bytes are; not stored
  bool operator==(const SourceFile&) const = default;
};

struct Record {
  // The record's start: a byte of the file's (uncompressed) text, or the number of its row or sequence, from 0. The
  // format decides which.
  int64_t position = 0;
  std::string_view text;          // any bytes; empty for other kinds of records
  std::span<const uint32_t> ids;  // instead of the text, if is_ids
  bool is_ids = false;
  WeightRuns weights;  // of the text's bytes or of the ids; empty: each is 1
  std::shared_ptr<const recordings::SpikeArray>
      array;  // instead of text and ids; else null. With a problem: at least its labels
  // Null: the views above are valid until the next call of next(). Otherwise they are valid as long as `owner` is held.
  std::shared_ptr<const void> owner;
  bool is_utf8 = false;  // `text` is known to be UTF-8; false: not checked

  RecordProblem problem = RecordProblem::kNone;
  std::string why;       // the problem, for people: "it has no key \"text\""
  std::string fix;       // how to read the record without a correction; empty: there is no way
  std::string location;  // for people, after the file's name: "line 17", "row 3"

  // Gives the record a problem.
  void fail(RecordProblem what, std::string why_so, std::string how_on = {});
  void fail_as_too_long(int64_t max_record_bytes);
  void fail_as_unreadable(const Error& error);  // makes it the last one of a file whose rest cannot be read
  // Whether all ids are below vocab_size (0: unknown). If not, the record gets a problem.
  bool check_ids(int64_t vocab_size);
};

class SourceReader {
 public:
  virtual ~SourceReader() = default;
  // Fills `record` with the next record; false at the end. After a record with a problem the next call gives the
  // following one, except after kUnreadable, which is always the last. Throws only for disk errors.
  virtual bool next(Record& record) = 0;
  // Bytes of the range on disk that were read so far, for a progress bar.
  virtual int64_t bytes_read() const = 0;
};

struct Recognised {
  Format format = Format::kText;
  Compression compression = Compression::kNone;
};

// What the user said about files of other kinds than the usual ones.
struct KindRules {
  bool has_keys = false;  // the key of the text was given: a file without keys is refused, unless as_text is true
  bool as_text = false;   // a file that is not text, or has no keys, is read as text
};

// This many of a file's first bytes decide what it is.
inline constexpr size_t kSniffBytes = 1 << 20;

// From the file's content, and its name where that says JSON lines, CSV, Parquet or Arrow; or from rules.format. Throws
// user_error for a file that is no text and of no format, with its kind, and as KindRules say. Throws system_error if
// the file cannot be opened.
Recognised recognise(const Path& path, const ReadRules& rules, const KindRules& kinds = {});

// Whether the file may be read in ranges.
bool can_be_cut(const SourceFile& file);

// Throws user_error or damaged() for a file that cannot be read at all.
std::unique_ptr<SourceReader> open_source(const SourceFile& file, const ReadRules& rules, SourceRange range = {});

// Throws user_error for weights by a key that a file of this format cannot have.
void check_weight_keys(const SourceFile& file, const ReadRules& rules);

// Throws user_error for an option of how records are read that none of the files uses.
void check_options_used(const std::vector<SourceFile>& files, const ReadRules& rules);

}  // namespace hearth::data
