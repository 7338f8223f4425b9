// SPDX-License-Identifier: Apache-2.0
// What one rank needs for a training step: its part of the model, the weights, the optimizer, and the groups of ranks
// in which they communicate. The trainer and `hearth bench step` build the same objects.
#pragma once

#include <c10/core/Device.h>

#include <cstdint>
#include <optional>
#include <vector>

#include "comm/group.h"
#include "comm/mesh_groups.h"
#include "config/config.h"
#include "model/transformer.h"
#include "ops/step_decision.h"
#include "optim/optimizer.h"
#include "parallel/sharded_weights.h"
#include "plan/activations.h"
#include "plan/parameters.h"
#include "plan/precision.h"
#include "train/step.h"

namespace hearth::train {

// A configuration, and the decisions that it leaves to the machine and to the start.
struct TrainingSetup {
  const config::RunConfig& config;  // resolved
  const plan::ModelShape& shape;    // of the whole model
  plan::Precision precision;
  std::vector<plan::Recompute> recompute;  // plan::MemoryPlan
  at::Device device;
  std::vector<bool> trained = {};  // by parameter of this rank; empty: all
  ops::GuardRules guard = {};
};

class RankTraining {
 public:
  // `world`: all ranks, as many as the configuration's degrees multiply to. Weights are zero (run/state.h fills them).
  // Borrows the configuration and `world`. Collective.
  RankTraining(const TrainingSetup& setup, comm::Group& world);

  // In the order in which they are made, because each one borrows earlier ones.
  const comm::MeshGroups groups;
  const plan::ParameterPlan plan;  // for this rank's part of the model
  parallel::ShardedWeights weights;
  optim::ShardedOptimizer optimizer;
  model::Transformer model;
  TrainStep step;

 private:
  struct RankModel;
  RankTraining(const TrainingSetup& setup, const RankModel& here, comm::Group& world);
};

}  // namespace hearth::train
