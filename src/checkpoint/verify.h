// Is a checkpoint whole? What `hearth verify` prints and what decides where a run resumes.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/file.h"

namespace hearth::checkpoint {

struct Verification {
  bool has_manifest = false;  // false: PyTorch wrote it, and only structure and CRC-32s could be checked
  int64_t tensors = 0, items = 0, bytes = 0;
  // One for each damaged item, or the one that made going on impossible: what, and why.
  std::vector<std::string> problems;
};

// Reads every byte. Damage is in the result; other errors (no such folder, a failing disk, a newer format) are thrown.
Verification verify_checkpoint(const Path& folder);

}  // namespace hearth::checkpoint
