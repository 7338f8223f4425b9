// From paths to source files: which, in which order, of which format. Nothing is written here.
//
// The result depends on the files' content and real paths alone, not on the order of the arguments, of a folder's
// entries, or of threads.
#pragma once

#include <atomic>
#include <cstdint>
#include <string>
#include <vector>

#include "base/file.h"
#include "data/source/source.h"

namespace hearth::data {

struct DiscoverOptions {
  std::vector<Path> paths;           // files, or folders that are searched with all they contain
  std::vector<Path> labels;          // the label file of each, which are token files then; or empty
  std::vector<std::string> include;  // shell patterns that a file's name in a folder must match one of; empty: all
  Path exclude;                      // a folder not to enter (the output); may be empty
  ReadRules read;
  int64_t threads = 1;
};

struct Discovery {
  std::vector<SourceFile> sources;  // sorted by real path; different content each
  int64_t links_resolved = 0;       // paths that led to a file already listed
  int64_t duplicates_dropped = 0;   // files whose content another file already had
  int64_t empty_dropped = 0;        // files without a byte
  int64_t skipped = 0;              // entries of folders that are no files: dangling links, sockets
};

// Bytes hashed so far and in all, for a progress bar in another thread.
struct HashProgress {
  std::atomic<int64_t> files{0}, bytes_read{0}, bytes_total{0};
};

// Hashes only the files that have a size in common: the others cannot be equal. Throws user_error for a path that is
// not there or cannot be read, and where there is no file with content.
Discovery discover(const DiscoverOptions& options, HashProgress& progress);

// Fills in the hashes of `wanted` (indices in `sources`) that are not there yet.
void hash_sources(std::vector<SourceFile>& sources, const std::vector<size_t>& wanted, int64_t threads,
                  HashProgress& progress);

// Throws user_error if the file, or one beside it that its records need, has another size or time than when it was
// found.
void check_unchanged(const SourceFile& source);

}  // namespace hearth::data
