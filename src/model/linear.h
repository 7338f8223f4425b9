// The products of the blocks' linear layers, in the model's precision. Weight gradients are always computed from
// bfloat16 or wider. They are summed over many steps, so errors of float8 would appear there first.
#pragma once

#include "model/activations.h"
#include "ops/float8.h"
#include "ops/matmul.h"

namespace hearth::model {

// out = x w^T
inline void linear(const Activations& a, const at::Tensor& out, const at::Tensor& x, const at::Tensor& w) {
  a.float8 ? ops::matmul_float8(out, x, w) : ops::matmul(out, x, w);
}

// dx = dy w
inline void linear_input_gradient(const Activations& a, const at::Tensor& dx, const at::Tensor& dy,
                                  const at::Tensor& w) {
  a.float8 ? ops::matmul_input_gradient_float8(dx, dy, w) : ops::matmul_input_gradient(dx, dy, w, false);
}

}  // namespace hearth::model
