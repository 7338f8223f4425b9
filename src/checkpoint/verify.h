// SPDX-License-Identifier: Apache-2.0
// Checks that a checkpoint is whole: for `hearth verify`, and when a run resumes. On a resume each rank checks what it
// loads, and its share of what no rank loads. So every byte is read once.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/file.h"
#include "checkpoint/load.h"

namespace hearth::checkpoint {

struct Verification {
  bool has_manifest = false;  // false: PyTorch wrote it; only structure and CRC-32s are checked
  int64_t tensors = 0, items = 0, bytes = 0;
  // What is damaged, and why: one entry for each item, or a single entry for damage that ended the check.
  std::vector<std::string> problems;
};

// Reads every byte. The result contains the damage; other errors (no such folder, a failing disk, a newer format) are
// thrown.
Verification verify_checkpoint(const Path& folder);

// Checks everything except the items: hearth.json, `.metadata`, the tokenizer's copy, and the sizes of all files. It
// takes milliseconds where verify_checkpoint() reads gigabytes.
Verification verify_frame(const Path& folder);

// Which items `reader` has checked, a bit each, in the order of its metadata().
std::string checked_items(const Reader& reader);

// Checks rank number `rank`'s share of the items that no rank has checked. `checked`: the bits of all `ranks`, or'ed.
// The shares have about as many bytes each. Throws damaged() at the first item that is not right. Local.
void check_rest(Reader& reader, std::string_view checked, int64_t rank, int64_t ranks);

}  // namespace hearth::checkpoint
