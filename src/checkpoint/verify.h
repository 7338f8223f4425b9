// Checks that a checkpoint is whole: for `hearth verify`, and to choose where a run resumes.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/file.h"

namespace hearth::checkpoint {

struct Verification {
  bool has_manifest = false;  // false: PyTorch wrote it; only structure and CRC-32s are checked
  int64_t tensors = 0, items = 0, bytes = 0;
  // One for each damaged item, or the one that ended the check: what, and why.
  std::vector<std::string> problems;
};

// Reads every byte. The result contains the damage; other errors (no such folder, a failing disk, a newer format) are
// thrown.
Verification verify_checkpoint(const Path& folder);

}  // namespace hearth::checkpoint
