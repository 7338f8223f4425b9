// SPDX-License-Identifier: Apache-2.0
// A run's initial weights, for programs that compare with it.
#pragma once

#include "comm/group.h"
#include "run/run.h"
#include "run/saver.h"
#include "run/state.h"
#include "tiny_run.h"

namespace hearth::train {

// Writes a checkpoint that torch can read.
inline Path save_initial_weights(const config::RunConfig& config) {
  run::Run run = run::open_run(config);
  const auto group = comm::single();
  parallel::ShardedWeights weights(run.plan, run.precision, *group, parallel::ShardedWeights::Mode::kTraining);
  run::initialize_weights(weights, static_cast<uint64_t>(config.training.seed));
  run::save_state(weights, config.base_folder / "initial", run.manifest({}, {}));
  return checkpoint::step_folder(config.base_folder / "initial", 0);
}

}  // namespace hearth::train
