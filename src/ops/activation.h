// SPDX-License-Identifier: Apache-2.0
// The function f between the matrices of a feed-forward (config::Activation), alone or as a gate (arXiv 2002.05202):
//
//   x [T, F]    a = f(x)
//   x [T, 2F]   a = f(g) u, where x = [g | u] is one GEMM's output: columns 0..F-1 from w1, F..2F-1 from w3
//
//   silu        f(g) = g / (1 + exp(-g))
//   gelu        f(g) = g (1 + erf(g / sqrt(2))) / 2                              arXiv 1606.08415
//   gelu_tanh   f(g) = g (1 + tanh(sqrt(2 / pi) (g + 0.044715 g^3))) / 2         its approximation
//   relu2       f(g) = max(g, 0)^2                                               arXiv 2109.08668
//
//   clamped_swiglu, always with a gate: a = f(c) (v + 1) with c = min(g, 7), v = u within [-7, 7], and
//               f(c) = c / (1 + exp(-1.702 c))                                   gpt-oss, arXiv 2508.10925
//
// a [T, F].
#pragma once

#include <ATen/core/Tensor.h>

#include "plan/parameters.h"

namespace hearth::ops {

void activation_forward(plan::Activation function, const at::Tensor& a_TF, const at::Tensor& x_TN);

// dx [T, F] or [T, 2F] may be x itself. If `a` is defined, forward's output is written to it again (cheap recomputation
// for the gradient of w2); a may be da.
void activation_backward(plan::Activation function, const at::Tensor& dx_TN, const at::Tensor& da_TF,
                         const at::Tensor& x_TN, const at::Tensor& a_TF = {});

// Rows that are multiplied by the sigmoids of others: out = x sigmoid(gate), element by element (gated attention, arXiv
// 2505.06708). Computed in float32 or wider, and rounded once. All tensors are [T, N], of one type. out may be x.
void gate_forward(const at::Tensor& out, const at::Tensor& x, const at::Tensor& gate);
// dout becomes the gradient of x, and gate becomes its own gradient.
void gate_backward(const at::Tensor& dout, const at::Tensor& gate, const at::Tensor& x);

}  // namespace hearth::ops
