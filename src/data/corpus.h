// From paths to documents: which files, in which order, which of them held out. Nothing is written here.
//
// The result depends on the files' content and real paths alone, not on the order of the arguments, of a folder's
// entries, or of threads.
#pragma once

#include <atomic>
#include <cstdint>
#include <string>
#include <vector>

#include "base/file.h"
#include "data/manifest.h"

namespace hearth::data {

struct CorpusOptions {
  std::vector<Path> paths;           // files, or folders that are searched with all they contain
  std::vector<std::string> include;  // shell patterns that a file's name in a folder must match one of; empty: all
  Path exclude;                      // a folder not to enter (the output); may be empty
  int64_t threads = 1;
};

// A piece of a source file.
struct Document {
  int64_t source = 0;  // index in Corpus::sources
  int64_t begin = 0, size_bytes = 0;
  std::string hash;  // XXH3-128 of its text
};

struct Corpus {
  std::vector<SourceFile> sources;  // sorted by real path; different content each
  std::vector<Document> documents;  // in the order of sources
  int64_t links_resolved = 0, duplicates_dropped = 0, empty_dropped = 0, skipped = 0;
  int64_t invalid_utf8_files = 0, invalid_utf8_bytes = 0;
  int64_t text_bytes() const;
};

// Bytes read so far and in all, for a progress bar in another thread.
struct CorpusProgress {
  std::atomic<int64_t> files{0}, bytes_read{0}, bytes_total{0};
};

// Throws user_error for a path that is not there or cannot be read, and for a corpus without text.
// document_bytes > 0: files are cut after the first line end at or beyond so many bytes.
Corpus find_corpus(const CorpusOptions& options, int64_t document_bytes, CorpusProgress& progress);

// Whether a document is held out: a function of its content alone, so that neither order nor neighbours matter, and a
// repeated text is never on both sides. True for `fraction` of all contents.
bool is_held_out(const std::string& document_hash, double fraction);

}  // namespace hearth::data
