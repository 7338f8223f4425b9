// What a dataset is made from. A source is one file; a reader turns it, or a range of it, into records in order: each a
// document's text, the token ids that another program made of it, or an array of counts.
//
// A format is a row in source.cpp (its name, how it is recognised) and a SourceReader behind open_source. Readers know
// nothing of tokenizers, splits, shards and policies for bad records: they say what a record is, and what is wrong with
// it. The same file and rules give the same records, whatever the ranges it was cut into.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/file.h"
#include "data/formats/byte_stream.h"
#include "data/formats/label_weights.h"
#include "data/formats/read_rules.h"
#include "data/formats/spike_array.h"

namespace hearth::data {

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
  // following one (kUnreadable is always the last). Throws for failures of the disk alone.
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

// Throws user_error for weights by a key that a file of this format cannot have.
void check_weight_keys(const SourceFile& file, const ReadRules& rules);

}  // namespace hearth::data
