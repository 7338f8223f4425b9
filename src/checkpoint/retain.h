// Which checkpoints of a run exist, which one to resume from, and which ones to delete.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "base/file.h"

namespace hearth::checkpoint {

// Steps that have a folder with a final name, ascending; a missing folder gives none. Nothing is opened.
std::vector<int64_t> list_steps(const Path& checkpoints);

// The checkpoint that a user means: `folder` itself, ours or PyTorch's; or, of a run folder or its checkpoints/, the
// newest step. Nothing is opened. Throws user_error where no checkpoint is there.
Path find_checkpoint(const Path& folder);

struct DamagedCheckpoint {
  int64_t step;
  Path folder;
  std::string reason;  // "layers.0.attention.wq.weight: checksum ... (step-00000100/__R_0.distcp, bytes ...)"
};

struct NewestGood {
  std::optional<int64_t> step;             // none: no good checkpoint
  Path folder;                             // of `step`
  std::vector<DamagedCheckpoint> damaged;  // newer than `step`, newest first; the caller must show them
};

// Verifies every checksum, newest first, until one is good. Errors that are not damage (permissions, a failing disk, a
// newer format) are thrown: going back to an older state would hide them.
NewestGood newest_good(const Path& checkpoints);

// Deletes all but the newest `keep_latest_k` steps (0: keeps all). `verified_step`, the last one known to be good (just
// committed or loaded), is never deleted. A folder is renamed before it is deleted, so that a half-deleted one is never
// taken for a checkpoint. Returns the steps deleted.
std::vector<int64_t> prune(const Path& checkpoints, int64_t keep_latest_k, int64_t verified_step);

// Call once before training, holding the run's lock: removes folders of interrupted saves and deletions, and restores a
// checkpoint whose replacement was interrupted. Returns the names it dealt with.
std::vector<std::string> remove_leftovers(const Path& checkpoints);

}  // namespace hearth::checkpoint
