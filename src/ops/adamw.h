// AdamW with decoupled weight decay over flat buffers, in the order of operations of torch.optim.AdamW:
//   p *= 1 - lr * decay;  m += (1 - beta1) * (g - m);  v = beta2 * v + (1 - beta2) * g^2
//   p -= lr / (1 - beta1^t) * m / (sqrt(v) / sqrt(1 - beta2^t) + eps)
// Source: arXiv 1711.05101 algorithm 2 (torch's form: lr multiplies the decay).
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <span>

namespace hearth::ops {

struct AdamWStep {
  double lr = 0;
  double beta1 = 0.9, beta2 = 0.95;
  double eps = 1e-8;
  double weight_decay = 0;
  int64_t t = 1;              // 1 at the first update
  double gradient_scale = 1;  // g = gradient_scale * gradient: clipping without a pass of its own
};

// Elements [begin, end) of the flat buffer.
struct Range {
  int64_t begin, end;
};

// Updates parameter, exp_avg and exp_avg_sq, all [N] contiguous; gradient is only read. Every element is decayed.
void adamw(const at::Tensor& parameter_N, const at::Tensor& gradient_N, const at::Tensor& exp_avg_N,
           const at::Tensor& exp_avg_sq_N, const AdamWStep& step);

// The same, but only elements inside `decayed` (ascending, not overlapping, within [0, N)) are decayed.
void adamw(const at::Tensor& parameter_N, const at::Tensor& gradient_N, const at::Tensor& exp_avg_N,
           const at::Tensor& exp_avg_sq_N, const AdamWStep& step, std::span<const Range> decayed);

}  // namespace hearth::ops
