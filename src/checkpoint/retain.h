// SPDX-License-Identifier: Apache-2.0
// The checkpoints of a run: which there are, which one to resume from, and which to delete.
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
// `given_up`: whose items were found damaged; these are not in the result.
NewestGood newest_candidate(const Path& checkpoints, const std::vector<DamagedCheckpoint>& given_up);

// Which checkpoints are kept: those that any of these keeps.
struct KeepRules {
  int64_t latest_k = 0;       // the newest; 0: all
  int64_t every = 0;          // steps that this divides; 0: none
  int64_t best = 0;           // those with the lowest validation losses in their manifests
  std::set<int64_t> steps{};  // these
};

// The steps among these checkpoints, one of each step and ascending, that the rules do not keep. Reads manifests if
// `best` is above 0; a checkpoint without a readable one, or without a validation loss, is not among the best.
std::vector<int64_t> steps_to_delete(const std::vector<StepFolder>& checkpoints, const KeepRules& rules);

// Deletes what the rules do not keep, all folders of a step. `verified_step`, just committed or loaded and known to be
// good, is never deleted, nor is a later step: it is damaged, or will be written again. Each folder is first renamed,
// or loses its hearth.json in a store: a half-deleted one must not look like a checkpoint. Returns the deleted steps.
std::vector<int64_t> prune(const Path& checkpoints, const KeepRules& rules, int64_t verified_step);

// Deletes the checkpoints whose place `newest`, a checkpoint in a store, takes: older saves of the same step. On a disk
// commit() has replaced them.
void remove_older_saves(const Path& newest);

// Call once before training, with the run's lock held. Removes folders of interrupted saves and deletions, and restores
// a checkpoint whose replacement was interrupted. In a store, a step without hearth.json is such a folder, or with
// hearth.json alone. Returns the names of these folders. `refusals`: gets the errors of a store, which do no harm, as
// no save uses such a name again (rclone removes no folder with an unfinished upload). Null: they are thrown.
std::vector<std::string> remove_leftovers(const Path& checkpoints, std::vector<Error>* refusals = nullptr);

}  // namespace hearth::checkpoint
