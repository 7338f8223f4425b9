// SPDX-License-Identifier: Apache-2.0
// Lets the products of a step take time: a test says how much (support/simulated_time.h).
//
// The linker puts the functions below in place of the product's (--wrap: tests/CMakeLists.txt reads their symbols
// here), so the product has no hook. One source file of a test binary includes this.
#pragma once

#include <functional>

#include "ops/attention.h"
#include "ops/matmul.h"

namespace hearth::train {

using at::Tensor;

// Called before a product or attention, in its thread, with its FLOPs. Empty: they take no time. All attention counts
// as its forward.
inline std::function<void(double flops)> spend_flops;

void spend(const Tensor& out, int64_t summands) {
  if (spend_flops) spend_flops(2 * static_cast<double>(out.numel()) * static_cast<double>(summands));
}

// The function after the macro replaces the one with this symbol; `real_NAME` calls the original.
#define HEARTH_WRAP(result, name, symbol, ...)              \
  result real_##name(__VA_ARGS__) asm("__real_" symbol);    \
  result wrapped_##name(__VA_ARGS__) asm("__wrap_" symbol); \
  result wrapped_##name(__VA_ARGS__)

HEARTH_WRAP(void, matmul, "_ZN6hearth3ops6matmulERKN2at6TensorES4_S4_", const Tensor& out, const Tensor& a,
            const Tensor& b) {
  spend(out, a.size(1));
  real_matmul(out, a, b);
}
HEARTH_WRAP(void, input_gradient, "_ZN6hearth3ops21matmul_input_gradientERKN2at6TensorES4_S4_b", const Tensor& dx,
            const Tensor& dy, const Tensor& w, bool accumulate) {
  spend(dx, dy.size(1));
  real_input_gradient(dx, dy, w, accumulate);
}
HEARTH_WRAP(void, weight_gradient, "_ZN6hearth3ops22matmul_weight_gradientERKN2at6TensorES4_S4_b", const Tensor& dw,
            const Tensor& dy, const Tensor& x, bool accumulate) {
  spend(dw, dy.size(0));
  real_weight_gradient(dw, dy, x, accumulate);
}
HEARTH_WRAP(void, attention, "_ZN6hearth3ops17attention_forwardERKN2at6TensorES4_S4_S4_S4_RKNS0_13AttentionMaskEd",
            const Tensor& out, const Tensor& lse, const Tensor& q, const Tensor& k, const Tensor& v,
            const ops::AttentionMask& mask, double scale) {
  spend(q, q.size(1));
  real_attention(out, lse, q, k, v, mask, scale);
}
HEARTH_WRAP(void, attention_gradient,
            "_ZN6hearth3ops18attention_backwardERKN2at6TensorES4_S4_S4_S4_S4_S4_S4_S4_RKNS0_13AttentionMaskEd",
            const Tensor& dq, const Tensor& dk, const Tensor& dv, const Tensor& dout, const Tensor& out,
            const Tensor& lse, const Tensor& q, const Tensor& k, const Tensor& v, const ops::AttentionMask& mask,
            double scale) {
  spend(q, q.size(1));
  real_attention_gradient(dq, dk, dv, dout, out, lse, q, k, v, mask, scale);
}

}  // namespace hearth::train
