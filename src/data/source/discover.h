// SPDX-License-Identifier: Apache-2.0
// Finds source files from paths, with their order and formats. Writes nothing.
//
// The result depends only on the files' content and real paths, not on the order of arguments, folder entries or
// threads.
#pragma once

#include <atomic>
#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "base/file.h"
#include "data/source/left_out.h"
#include "data/source/source.h"

namespace hearth::data {

// Which files are searched, as the user gives it.
struct SearchOptions {
  std::vector<Path> paths;  // files, or folders that are searched with their subfolders
  // For paths that only a pattern names: the pattern's last part (path_list.h). They are treated like files of a
  // folder, unless the pattern spells the name: "README*".
  std::map<std::string, std::string> patterns;
  std::vector<Path> labels;          // the label file of each path, which must be a token file then; or empty
  std::vector<std::string> include;  // shell patterns: a file in a folder must match one of them; empty: all match
  std::vector<std::string> exclude;  // shell patterns: files and folders in a folder that are left out
  KindRules kinds;
  int64_t threads = 1;
};

struct DiscoverOptions : SearchOptions {
  Path output;  // a folder that is passed over; may be empty
  ReadRules read;
};

struct Discovery {
  std::vector<SourceFile> sources;        // by real path, or as a saved dataset lists them; different content each
  int64_t links_resolved = 0;             // paths to a file that was already listed
  int64_t duplicates_dropped = 0;         // files with the content of another one
  int64_t empty_dropped = 0;              // files without a byte
  int64_t skipped = 0;                    // entries of folders that are not files: sockets, pipes
  std::vector<LeftOut> left_out;          // entries of folders that are no data; a folder without what is in it
  std::vector<std::string> texts_beside;  // texts of folders that have records too, in no repository of the Hub
  std::vector<std::string> texts_about;   // texts of folders without records, by their names about data: README.md
};

// Bytes hashed so far and in total, for a progress bar in another thread.
struct HashProgress {
  std::atomic<int64_t> files{0}, bytes_read{0}, bytes_total{0};
};

// Hashes only the files that have a size in common: the others cannot be equal. Throws user_error for a path that is
// not there or cannot be read, for files that recognise() refuses, if no file has content, and for options that no file
// uses.
Discovery discover(const DiscoverOptions& options, HashProgress& progress);

// Fills in the missing hashes of `wanted` (indices in `sources`).
void hash_sources(std::vector<SourceFile>& sources, const std::vector<size_t>& wanted, int64_t threads,
                  HashProgress& progress);

// Throws user_error if the size or time of the file has changed since it was found. This includes the other files that
// its records need.
void check_unchanged(const SourceFile& source);

}  // namespace hearth::data
