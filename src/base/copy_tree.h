// SPDX-License-Identifier: Apache-2.0
// Copies a folder between a disk and a store, either way: a checkpoint, a dataset, an export.
#pragma once

#include <atomic>
#include <cstdint>
#include <string>

#include "base/file.h"

namespace hearth {

struct CopyProgress {
  std::atomic<int64_t> done_bytes{0}, all_bytes{0};
};

struct CopyResult {
  int64_t files = 0, bytes = 0;
  int64_t there = 0;  // files that `to` already had, with the same content
};

// Every file is read back from `to` and compared; one that differs is written again, three times at most. Files that
// mark a folder as complete (hearth.json, manifest.json, config.json, an index) come last, so an interrupted copy is
// not taken for a whole one. A second call continues an interrupted copy: files that `to` already has are kept. Files
// that only `to` has are kept, too. On a disk, a file with different content is replaced. In a store it is refused
// (user_error), because a late request of an earlier copy could replace it again. Throws an Error that names the file.
CopyResult copy_tree(const Path& from, const Path& to, CopyProgress& progress);

// Copies one file, with the same comparison and attempts. In a store the file must be new.
void copy_checked(const Path& from, const Path& to, CopyProgress& progress);

// Reads back a file that was written from memory. Throws an Error (kHardware) unless its XXH3-128 is `hash`, which is
// in hexadecimal digits.
void require_content(const Path& path, const std::string& hash);

}  // namespace hearth
