// SPDX-License-Identifier: Apache-2.0
#include "optim/optimizer.h"

#include "base/error.h"
#include "plan/muon.h"

namespace hearth::optim {

ShardedOptimizer::ShardedOptimizer(const config::Optimizer& config, parallel::ShardedWeights& weights,
                                   std::optional<uint64_t> rounding_seed)
    : weights_(weights), adamw_(config, weights, rounding_seed) {
  const std::vector<bool> matrices = plan::muon_matrices(config, weights.plan());
  for (size_t i = 0; i < matrices.size(); ++i)
    HEARTH_CHECK(weights.momentum_only(static_cast<int64_t>(i)) == matrices[i], "the state of parameter {}", i);
  if (config.name != config::OptimizerName::kMuon) return;
  HEARTH_CHECK(!rounding_seed, "Muon rounds to nearest");
  muon_.emplace(config, weights);
}

void ShardedOptimizer::step(double lr, int64_t step, const at::Tensor& decision) {
  adamw_.step(lr, step, decision);
  if (muon_) muon_->step(lr, decision);
  weights_.copies_written();
}

}  // namespace hearth::optim
