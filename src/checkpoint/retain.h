// The checkpoints of a run: which there are, which one to resume from, and which to delete.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "base/file.h"

namespace hearth::checkpoint {

// Steps with a folder of a final name, ascending. Empty if the folder is missing. Nothing is opened.
std::vector<int64_t> list_steps(const Path& checkpoints);

// The checkpoint of `folder`: `folder` itself (ours or PyTorch's), or the newest step of a run folder or its
// checkpoints/. Nothing is opened. Throws user_error if there is no checkpoint.
Path find_checkpoint(const Path& folder);

struct DamagedCheckpoint {
  int64_t step;
  Path folder;
  std::string reason;  // "layers.0.attention.wq.weight: checksum ... (step-00000100/__R_0.distcp, bytes ...)"
};

struct NewestGood {
  std::optional<int64_t> step;             // empty: there is no good checkpoint
  Path folder;                             // of `step`
  std::vector<DamagedCheckpoint> damaged;  // newer than `step`, newest first; the caller must show them
};

// Verifies every checksum, newest first, until one is good. Errors other than damage (permissions, a failing disk, a
// newer format) are thrown: a resume from an older state would hide them.
NewestGood newest_good(const Path& checkpoints);

// Deletes all steps except the newest `keep_latest_k` (0: keeps all). `verified_step`, just committed or loaded and
// known to be good, is never deleted. Each folder is first renamed: a half-deleted one must not look like a checkpoint.
// Returns the deleted steps.
std::vector<int64_t> prune(const Path& checkpoints, int64_t keep_latest_k, int64_t verified_step);

// Call once before training, with the run's lock held. Removes folders of interrupted saves and deletions, and restores
// a checkpoint whose replacement was interrupted. Returns the names of these folders.
std::vector<std::string> remove_leftovers(const Path& checkpoints);

}  // namespace hearth::checkpoint
