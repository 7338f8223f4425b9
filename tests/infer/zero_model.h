// SPDX-License-Identifier: Apache-2.0
// A model with closed forms for all its numbers.
#pragma once

#include "comm/group.h"
#include "run/run.h"
#include "run/saver.h"
#include "train/tiny_run.h"

namespace hearth::infer {

// A checkpoint of a model whose every weight is zero: all tokens are equally likely, so every number has a closed form.
inline Path save_zero_model(const config::RunConfig& config) {
  run::Run run = run::open_run(config);
  const auto group = comm::single();
  parallel::ShardedWeights weights(run.plan, run.precision, *group, parallel::ShardedWeights::Mode::kTraining);
  run::save_state(weights, run.folder.checkpoints(), run.manifest({}, {}));
  return train::step_of(config, 0);
}

}  // namespace hearth::infer
