// SPDX-License-Identifier: Apache-2.0
// The optimizer of a run: AdamW or Adam for all parameters, or Muon for the blocks' matrices and AdamW for the others.
#pragma once

#include <cstdint>
#include <optional>

#include "config/config.h"
#include "optim/adamw.h"
#include "optim/muon.h"
#include "parallel/sharded_weights.h"

namespace hearth::optim {

class ShardedOptimizer {
 public:
  // Borrows `weights`, whose momentum_only must be plan::muon_matrices of the same configuration. `rounding_seed` as in
  // AdamW; not with Muon. Throws as parameter_settings does.
  ShardedOptimizer(const config::Optimizer& config, parallel::ShardedWeights& weights,
                   std::optional<uint64_t> rounding_seed = std::nullopt);

  // Updates masters, their copies and the optimizer's state, as AdamW::step and Muon::step do. Collective with Muon,
  // else Local; then call weights.end_step().
  void step(double lr, int64_t step, const at::Tensor& decision);

  // Memory in addition to the weights' own: Muon's scratch.
  int64_t memory_bytes() const { return muon_ ? muon_->memory_bytes() : 0; }

 private:
  parallel::ShardedWeights& weights_;
  AdamW adamw_;
  std::optional<Muon> muon_;
};

}  // namespace hearth::optim
