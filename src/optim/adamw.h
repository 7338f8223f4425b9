// Adam or AdamW over what a rank owns, one call of the fused kernel (ops/adamw.h) per parameter. Frozen parameters are
// left alone.
//
// Decay is, by default (optimizer.weight_decay_on = "matrices"), only for parameters of two or more dimensions: the
// weight matrices, the token embedding and the output matrix; norm weights are left alone. That is Megatron's and
// nanoGPT's rule. "all" decays every parameter, as torchtitan does. [[optimizer.group]] changes it by name.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "config/config.h"
#include "ops/adamw.h"
#include "optim/parameter_groups.h"
#include "parallel/sharded_weights.h"

namespace hearth::optim {

class AdamW {
 public:
  // `weights` is borrowed. With `rounding_seed`, masters in bfloat16 are rounded stochastically, each element at each
  // step by a random number of its own, the same for any number of ranks. Throws as parameter_settings does.
  AdamW(const config::Optimizer& config, parallel::ShardedWeights& weights,
        std::optional<uint64_t> rounding_seed = std::nullopt);

  // Updates masters and moments from the reduced gradients, which are multiplied by the decision's scale on the fly and
  // not changed; or leaves them, where `decision` (ops/step_decision.h) says so. `step` is the training's, from 1.
  // Local; then call weights.end_step().
  void step(double lr, int64_t step, const at::Tensor& decision);

 private:
  config::Optimizer config_;
  parallel::ShardedWeights& weights_;
  std::optional<uint64_t> rounding_seed_;
  std::vector<ParameterSettings> settings_;  // of each parameter
};

}  // namespace hearth::optim
