// SPDX-License-Identifier: Apache-2.0
// A step's decision over weights whose gradients are complete, for tests of optimizers without a training around them.
#pragma once

#include <ATen/core/Tensor.h>

#include <cmath>

#include "ops/step_decision.h"
#include "ops/tensor.h"
#include "optim/clip.h"

namespace hearth::optim {

inline double gradient_norm(parallel::ShardedWeights& weights) {
  return std::sqrt(ops::to_doubles(squared_gradient_norm(weights)).front());
}

// The decision about a gradient of this norm.
inline kernels::Decision decision_of(double norm, double max_norm) {
  const ops::StepDecision step({}, at::kCPU);
  const std::vector<double> squares{norm * norm};
  step.decide(ops::zeros({2}, DType::kFloat64), ops::from_float64(squares), 0, max_norm);
  return ops::read_decision(step.decision());
}

}  // namespace hearth::optim
