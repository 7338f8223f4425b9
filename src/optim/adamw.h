// AdamW over the slices a rank owns, one call of the fused kernel (ops/adamw.h) per unit.
//
// Decay is decoupled and, by default (optimizer.weight_decay_on = "matrices"), only for parameters of two or more
// dimensions: the weight matrices, the token embedding and the output matrix; norm weights are left alone. That is
// Megatron's and nanoGPT's rule. "all" decays every parameter, as torchtitan does.
#pragma once

#include <cstdint>
#include <vector>

#include "config/config.h"
#include "ops/adamw.h"
#include "parallel/sharded_weights.h"

namespace hearth::optim {

class AdamW {
 public:
  // `weights` is borrowed. Throws user_error for an unknown optimizer.weight_decay_on.
  AdamW(const config::Optimizer& config, parallel::ShardedWeights& weights);

  // Updates masters and moments from the reduced gradients, which are multiplied by gradient_scale on the fly
  // (clip_scale below) and not changed. `t` is 1 at the first update of the run. Local; then call weights.end_step().
  void step(double lr, int64_t t, double gradient_scale = 1);

 private:
  config::Optimizer config_;
  parallel::ShardedWeights& weights_;
  // Per unit: the parts of this rank's slice that decay, in elements from the slice's begin.
  std::vector<std::vector<ops::Range>> decayed_;
};

}  // namespace hearth::optim
