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
  int64_t there = 0;  // files that were at `to` already, with the same content
};

// Every file is read back from `to` and compared; one that differs is written again, three times at most. Files by
// whose presence a folder is known (hearth.json, manifest.json, config.json, an index) come last, so an interrupted
// copy is not taken for a whole one. Called again, it goes on: files with the same content stay. Other files at `to`
// stay, too. A file with another content is replaced on a disk, and refused in a store (user_error), where a late
// request of an earlier copy could replace it again. Throws an Error that names the file.
CopyResult copy_tree(const Path& from, const Path& to, CopyProgress& progress);

// One file, which is read back and written again as above. In a store it must be new.
void copy_checked(const Path& from, const Path& to, CopyProgress& progress);

// Reads a file that was written from memory. Throws an Error (kHardware) unless it has this XXH3-128, in hexadecimal
// digits.
void require_content(const Path& path, const std::string& hash);

}  // namespace hearth
