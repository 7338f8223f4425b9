// SPDX-License-Identifier: Apache-2.0
// Which checkpoint of a run to resume from, and which ones to delete.
#pragma once

#include <cstdint>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "base/error.h"
#include "base/file.h"
#include "checkpoint/step_folder.h"

namespace hearth::checkpoint {

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

// The same without reading the items (checkpoint/verify.h: verify_frame), for ranks that check them while they load.
// `given_up`: checkpoints whose items were found damaged; they are not in the result.
NewestGood newest_candidate(const Path& checkpoints, const std::vector<DamagedCheckpoint>& given_up);

// Which checkpoints are kept. A checkpoint stays if any of these rules keeps it.
struct KeepRules {
  int64_t latest_k = 0;       // this many of the newest; 0: all
  int64_t every = 0;          // each step that is a multiple of this; 0: none
  int64_t best = 0;           // this many with the lowest validation losses in their manifests; 0: none
  std::set<int64_t> steps{};  // these steps
};

// The steps that the rules do not keep. `checkpoints`: ascending, and one for each step. Reads manifests if `best` is
// above 0; a checkpoint without a readable one, or without a validation loss, is not among the best.
std::vector<int64_t> steps_to_delete(const std::vector<StepFolder>& checkpoints, const KeepRules& rules);

// Deletes what the rules do not keep, all folders of a step. `verified_step`, which was just committed or loaded and is
// known to be good, is never deleted. Nor are later steps: they are damaged, or will be written again. A folder is
// renamed first, or loses its hearth.json in a store, because a half-deleted folder must not look like a checkpoint.
// Returns the deleted steps.
std::vector<int64_t> prune(const Path& checkpoints, const KeepRules& rules, int64_t verified_step);

// Deletes older saves of the step of `newest`, a checkpoint in a store. Does nothing on a disk, where commit() has
// replaced them.
void remove_older_saves(const Path& newest);

// Call once before training, with the run's lock held. Removes folders of interrupted saves and deletions, and restores
// a checkpoint whose replacement was interrupted. In a store, a step's folder is a leftover if it has no hearth.json,
// or nothing else. Returns the names of these folders. `refusals` gets a store's errors (rclone removes no folder with
// an unfinished upload); null: they are thrown. They do no harm, because no save uses such a name again.
std::vector<std::string> remove_leftovers(const Path& checkpoints, std::vector<Error>* refusals = nullptr);

}  // namespace hearth::checkpoint
