// SPDX-License-Identifier: Apache-2.0
// The update of Muon (Jordan et al., 2024: kellerjordan.github.io/posts/muon) for one matrix, in three parts, in the
// order of operations of torch.optim.Muon. The first and the last are elementwise: a rank may call them for its part of
// a matrix. The second needs the whole matrix.
//   muon_momentum   g = gradient_scale * gradient;  b += (1 - mu) * (g - b);  update = b, or b + (1 - mu) * (g - b)
//   orthogonalize   update = U f(S) V^T, with update = U S V^T
//   muon_apply      p = (1 - decay) * p - step_size * update
//
// All three do nothing if `decision` (ops/step_decision.h) says so. CPU only.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>

namespace hearth::ops {

struct MuonMomentum {
  double momentum = 0.95;  // mu
  bool nesterov = true;    // the second form of the update
};

// Writes update_N and the momentum, all [N] contiguous; gradient is only read. Either all are float64, or update and
// gradient are float32, and the momentum is float32 or bfloat16. A bfloat16 momentum is rounded to nearest when it is
// stored, after the update has used it.
void muon_momentum(const at::Tensor& update_N, const at::Tensor& momentum_N, const at::Tensor& gradient_N,
                   const MuonMomentum& settings, const at::Tensor& decision);

// Flat memory that orthogonalize overwrites, all of the type of its products: at least [M * N] twice, and the square of
// the shorter side twice.
struct NewtonSchulzScratch {
  at::Tensor x, next, gram, polynomial;
};

// Replaces update_MN, contiguous, by its nearest orthogonal matrix, approximately: `steps` Newton-Schulz iterations
//   x = update / max(|update|, 1e-7);  each step: x = a x + (b x x^T + c (x x^T)^2) x
// with a = 3.4445, b = -4.775, c = 2.0315, and x transposed if it has more rows than columns. After 5 steps singular
// values above 1/500 of the norm |update| are between 0.68 and 1.2. Zero stays zero. The products' type is the
// scratch's: float64 if update is float64, else float32 or bfloat16. update is float32 or float64.
void orthogonalize(const at::Tensor& update_MN, int64_t steps, const at::Tensor& decision,
                   const NewtonSchulzScratch& scratch);

// Updates parameter_N; both are [N] contiguous. Either both are float64, or update is float32, and the parameter is
// float32 or bfloat16, rounded to nearest once.
void muon_apply(const at::Tensor& parameter_N, const at::Tensor& update_N, double step_size, double decay,
                const at::Tensor& decision);

}  // namespace hearth::ops
