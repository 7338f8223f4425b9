// SPDX-License-Identifier: Apache-2.0
// Where a training starts: from its own folder's checkpoint, from another source's weights, or from initial values.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/file.h"
#include "checkpoint/retain.h"
#include "convert/initial_load.h"
#include "parallel/sharded_weights.h"
#include "run/run.h"
#include "run/state.h"

namespace hearth::run {

struct Start {
  RunProgress progress;
  std::optional<Path> checkpoint;     // empty: initial values from the seed
  bool from_elsewhere = false;        // the checkpoint is from another training
  bool moments = false;               // moments come from the checkpoint; else they start at zero
  convert::InitialLoad initial_load;  // the parts that are not taken over
  std::string chat_template;          // of the checkpoint's model, for its own checkpoints; empty: none
  std::vector<std::string> notes;     // for the console
  std::vector<std::string> warnings;  // the same, for doubtful settings
  // The open checkpoint, for fill() or check(). It stays open because thousands of ranks would read its lists again
  // from one file system.
  std::shared_ptr<convert::Source> source;

  // Fills each rank's weights and moments. Meanwhile checks this run's own checkpoint: each rank checks what it loads,
  // and its share of what no rank loads. Returns damage that any rank found; the weights are then undefined. Throws if
  // something else is wrong. Collective.
  std::optional<checkpoint::DamagedCheckpoint> fill(const Run& run, parallel::ShardedWeights& weights,
                                                    comm::Control& control);
  // Use it in place of fill() if nothing is to be loaded: checks this run's whole checkpoint, if there is one.
  // Collective.
  std::optional<checkpoint::DamagedCheckpoint> check(comm::Control& control);
};

// Finds the start, the same on all ranks. Rank 0 looks for the newest checkpoint in the run folder, which continues
// exactly; those that were `given_up` as damaged do not count. Without one, checkpoint.initial_load_path gives the
// weights, except the ones that checkpoint.fresh names. With checkpoint.initial_load_model_only = false it also gives
// moments, step and data position: a branch, such as another cool-down. checkpoint.exclude_from_loading makes
// exceptions. Throws user_error if the configuration, the data or the tokenizer does not match the checkpoint. Allowed
// differences become notes. Collective.
Start find_start(Run& run, comm::Control& control, const std::vector<checkpoint::DamagedCheckpoint>& given_up = {});

}  // namespace hearth::run
