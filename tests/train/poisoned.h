// SPDX-License-Identifier: Apache-2.0
// A checkpoint with a NaN, as if a run had written it: all its checksums are right.
#pragma once

#include <limits>

#include "comm/group.h"
#include "parallel/sharded_weights.h"
#include "run/saver.h"
#include "run/state.h"
#include "tiny_run.h"

namespace hearth::train {

// Writes `step` of a run of two layers and 258 tokens to `folder`, with a NaN in layers.1. Returns its path.
inline Path poisoned_checkpoint(const config::RunConfig& run, int64_t step, const Path& folder) {
  checkpoint::Reader reader = checkpoint::Reader::open(step_of(run, step));
  const plan::ParameterPlan plan = plan::parameter_plan(plan::model_shape(run.model, 258));
  const auto group = comm::single();
  parallel::ShardedWeights weights(plan, DType::kFloat32, *group, parallel::ShardedWeights::Mode::kTraining);
  run::load_weights(reader, weights);
  weights.master(2).data_ptr<float>()[weights.master(2).numel() / 2] = std::numeric_limits<float>::quiet_NaN();
  run::save_state(weights, folder, reader.manifest());
  return checkpoint::step_folder(folder, step);
}

}  // namespace hearth::train
