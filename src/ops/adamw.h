// Adam and AdamW over flat buffers, one pass, in the order of operations of torch.optim.Adam and AdamW:
//   g = gradient_scale * gradient + l2 * p
//   p *= 1 - lr * decay;  m += (1 - beta1) * (g - m);  v = beta2 * v + (1 - beta2) * g^2
//   p -= lr / (1 - beta1^t) * m / (sqrt(v) / sqrt(1 - beta2^t) + eps)
// AdamW has decay (decoupled: arXiv 1711.05101 algorithm 2, torch's form: lr multiplies it), Adam has l2 (arXiv
// 1412.6980 with the penalty's gradient added). AdamForm::kTransformers is the AdamW that Hugging Face transformers
// had, and AWS Neuron's recipes have: eps is added before the bias correction, and the decay comes after the update:
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
  int64_t updates_before = 0;  // that were made when these moments began: their own t counts from there
};

// A bfloat16 parameter is rounded up with the probability that the bits cut off are of a unit in the last place, so
// that small updates count on average. So are moments in bfloat16: to nearest, a second moment whose beta2 is 0.999
// never falls, because a thousandth of it is less than half a unit. Element i takes bits of Philox(key, first + i): the
// same for any cut into ranks; exp_avg and exp_avg_sq take theirs of the keys whose second words differ by 1 and 2.
struct StochasticRounding {
  RandomKey key;
  uint64_t first = 0;
};

// Updates parameter, exp_avg and exp_avg_sq, all [N] contiguous; gradient is only read. All float64; or a float32
// gradient with a float32 or bfloat16 parameter and float32 or bfloat16 moments. `rounding` only with a bfloat16
// parameter. t, gradient_scale (clipping without a pass of its own) and whether anything changes at all are what
// `decision` (ops/step_decision.h) says, which lies on the same device.
void adamw(const at::Tensor& parameter_N, const at::Tensor& gradient_N, const at::Tensor& exp_avg_N,
           const at::Tensor& exp_avg_sq_N, const AdamWStep& step, const at::Tensor& decision,
           const std::optional<StochasticRounding>& rounding = std::nullopt);

}  // namespace hearth::ops
