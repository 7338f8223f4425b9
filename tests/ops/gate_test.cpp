// SPDX-License-Identifier: Apache-2.0
// Rows gated by sigmoids, against PyTorch's autograd in float64.
#include <ATen/Context.h>
#include <ATen/TensorOperators.h>
#include <ATen/ops/empty_like.h>
#include <ATen/ops/randn.h>
#include <ATen/ops/sigmoid.h>
#include <gtest/gtest.h>

#include "ops/activation.h"
#include "support/distance.h"

namespace hearth::ops {
namespace {

TEST(Gate, IsAProductWithSigmoidsAndHasAutogradsGradients) {
  struct Types {
    at::ScalarType type;
    double tolerance;
  };
  at::manual_seed(6);
  for (const auto& [type, tolerance] : {Types{at::kDouble, 1e-14}, {at::kFloat, 1e-6}, {at::kBFloat16, 1e-2}}) {
    constexpr int64_t kRows = 1030, kColumns = 24;  // more rows than are computed at a time
    const at::Tensor x = at::randn({kRows, kColumns}).to(type), dout = at::randn({kRows, kColumns}).to(type);
    const at::Tensor gate = (at::randn({kRows, kColumns}) * 3).to(type);
    const at::Tensor their_x = x.to(at::kDouble).clone().requires_grad_();
    const at::Tensor their_gate = gate.to(at::kDouble).clone().requires_grad_();
    const at::Tensor expected = their_x * at::sigmoid(their_gate);
    expected.backward(dout.to(at::kDouble));
    const at::Tensor out = at::empty_like(x), dx = dout.clone();
    gate_forward(out, x, gate);
    gate_backward(dx, gate, x);
    EXPECT_LT(hearth::test::relative_distance(out, expected.detach()), tolerance);
    EXPECT_LT(hearth::test::relative_distance(dx, their_x.grad()), tolerance);
    EXPECT_LT(hearth::test::relative_distance(gate, their_gate.grad()), tolerance);
  }
}

}  // namespace
}  // namespace hearth::ops
