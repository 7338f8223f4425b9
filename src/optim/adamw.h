// SPDX-License-Identifier: Apache-2.0
// Adam or AdamW for this rank's part of the weights, with one call of the fused kernel (ops/adamw.h) per parameter.
// Does not change parameters without moments: frozen ones, and matrices that Muon updates.
//
// By default (optimizer.weight_decay_on = "matrices") only parameters of two or more dimensions decay: weight matrices,
// token embedding and output matrix, but not norm weights. This is the rule of Megatron and nanoGPT. "all" decays every
// parameter, as in torchtitan. [[optimizer.group]] changes decay by name.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "config/config.h"
#include "ops/adamw.h"
#include "parallel/sharded_weights.h"
#include "plan/optimizer/parameter_groups.h"

namespace hearth::optim {

class AdamW {
 public:
  // Borrows `weights`. With `rounding_seed`, masters in bfloat16 are rounded stochastically, so that small updates are
  // not lost. Each element has its own random number in each step, the same for any number of ranks. Throws as
  // parameter_settings does.
  AdamW(const config::Optimizer& config, parallel::ShardedWeights& weights,
        std::optional<uint64_t> rounding_seed = std::nullopt);

  // Updates masters, their copies (ShardedWeights::Owned) and moments from the reduced gradients, unless `decision`
  // (ops/step_decision.h) skips the update. The kernel multiplies the gradients by the decision's scale and does not
  // change them. `step` is the training's step, from 1. Local; then call weights.end_step().
  void step(double lr, int64_t step, const at::Tensor& decision);

 private:
  config::Optimizer config_;
  parallel::ShardedWeights& weights_;
  std::optional<uint64_t> rounding_seed_;
  std::vector<plan::ParameterSettings> settings_;  // of each parameter
};

}  // namespace hearth::optim
