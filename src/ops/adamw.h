// SPDX-License-Identifier: Apache-2.0
// Adam and AdamW over flat buffers, one pass, in the order of operations of torch.optim.Adam and AdamW:
//   g = gradient_scale * gradient + l2 * p
//   p *= 1 - lr * decay;  m += (1 - beta1) * (g - m);  v = beta2 * v + (1 - beta2) * g^2
//   p -= lr / (1 - beta1^t) * m / (sqrt(v) / sqrt(1 - beta2^t) + eps)
// AdamW has decay (decoupled: arXiv 1711.05101 algorithm 2, torch's form: lr multiplies it). Adam has l2 (arXiv
// 1412.6980 with the penalty's gradient added). AdamForm::kTransformers is the former AdamW of Hugging Face
// transformers, still used by AWS Neuron's recipes: eps is added before the bias correction, and the decay comes after
// the update:
//   p -= lr * sqrt(1 - beta2^t) / (1 - beta1^t) * m / (sqrt(v) + eps);  p -= lr * decay * p
//
// Lanes are float32 (float64 through ops/reference.h). Parameters and moments in bfloat16 are rounded when they are
// stored: to nearest, or stochastically.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <optional>

#include "base/random.h"

namespace hearth::ops {

enum class AdamForm { kTorch, kTransformers };

struct AdamWStep {
  double lr = 0;
  double beta1 = 0.9, beta2 = 0.95;
  double eps = 1e-8;
  double decay = 0, l2 = 0;
  AdamForm form = AdamForm::kTorch;
  int64_t updates_before = 0;  // updates before these moments began; t - updates_before is their own t
};

// A bfloat16 parameter is rounded up with a probability: the cut-off bits, as a fraction of a unit in the last place.
// So small updates count on average. Moments in bfloat16 are rounded alike. Rounded to nearest, a second moment with
// beta2 of 0.999 would never fall: a thousandth of it is less than half a unit. Element i takes bits of Philox(key,
// first + i): the same for any cut into ranks. The keys of exp_avg and exp_avg_sq have second words that differ by 1
// and 2.
struct StochasticRounding {
  RandomKey key;
  uint64_t first = 0;
};

// Updates parameter, exp_avg and exp_avg_sq, all [N] contiguous; gradient is only read. Either all are float64, or
// gradient is float32, and the parameter and the moments are float32 or bfloat16. `rounding` only with a bfloat16
// parameter. `copy`, bfloat16 [N] and only with a float32 parameter, receives the parameter, rounded to nearest as
// copy_ does (ops/tensor.h); undefined: none. `decision` (ops/step_decision.h), on the same device, has t,
// gradient_scale (for clipping without a pass of its own) and whether anything changes.
void adamw(const at::Tensor& parameter_N, const at::Tensor& gradient_N, const at::Tensor& exp_avg_N,
           const at::Tensor& exp_avg_sq_N, const AdamWStep& step, const at::Tensor& decision,
           const std::optional<StochasticRounding>& rounding = std::nullopt, const at::Tensor& copy_N = {});

}  // namespace hearth::ops
