// SPDX-License-Identifier: Apache-2.0
// The biases of experts (model.expert_bias). They have no gradient and no moments: after each step an expert that got
// fewer tokens than the mean of its layer gets model.load_balance_coeff more, one that got more gets so much less
// (arXiv 2408.15664, algorithm 1; DeepSeek-V3, arXiv 2412.19437). torchtitan also takes the mean of all changes off
// each, which does not change what is chosen.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "parallel/sharded_weights.h"

namespace hearth::optim {

class ExpertBias {
 public:
  // Borrows `weights`. `freeze`: checkpoint.freeze; biases that it matches stay.
  ExpertBias(double rate, const std::vector<std::string>& freeze, parallel::ShardedWeights& weights);

  // Moves this rank's elements of all biases, and their copies, unless `decision` (ops/step_decision.h) skips the
  // update. loads_LE [L, E] float64: the rows of each expert of each layer of the model, of all ranks and micro-batches
  // of the step. Undefined for a model without experts. Local; call it between the optimizer's step and end_step().
  void step(const at::Tensor& loads_LE, const at::Tensor& decision);

 private:
  struct Bias {
    int64_t index, layer;  // of the plan's parameters; of the model's layers
  };
  parallel::ShardedWeights& weights_;
  const double rate_;
  std::vector<Bias> biases_;
};

}  // namespace hearth::optim
