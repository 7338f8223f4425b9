// Where a training begins: at a checkpoint of its own folder, at weights from elsewhere, or from nothing.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "base/file.h"
#include "parallel/sharded_weights.h"
#include "run/run.h"
#include "run/state.h"
#include "run/transfer.h"

namespace hearth::run {

struct Start {
  Progress progress;
  std::optional<Path> checkpoint;     // empty: initial values from the seed
  bool from_elsewhere = false;        // it is another training's
  bool moments = false;               // are the checkpoint's; else they start at zero
  Transfer transfer;                  // what is not taken over
  std::vector<std::string> notes;     // for the console
  std::vector<std::string> warnings;  // the same, of what somebody should look at

  // Fills this rank's weights and moments. Local.
  void fill(const Run& run, parallel::ShardedWeights& weights) const;
};

// The newest good checkpoint in the run folder goes on exactly. Without one, checkpoint.initial_load_path gives the
// weights, but for those of checkpoint.fresh, and with checkpoint.initial_load_model_only = false also moments, step
// and data position: a branch, such as another cool-down; checkpoint.exclude_from_loading makes exceptions. Throws
// user_error where the configuration, the data or the tokenizer does not go with the checkpoint; notes say what differs
// and is allowed to.
Start find_start(Run& run);

}  // namespace hearth::run
