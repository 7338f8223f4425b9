#include "ops/rope.h"

#include <ATen/ops/arange.h>
#include <ATen/ops/ones_like.h>
#include <ATen/ops/outer.h>
#include <ATen/ops/polar.h>
#include <ATen/ops/pow.h>
#include <ATen/ops/view_as_complex.h>
#include <ATen/ops/view_as_real.h>
#include <ATen/ops/zeros.h>

#include "compare.h"

namespace hearth::ops::test {
namespace {

constexpr double kTheta = 10000;

class Rope : public testing::TestWithParam<std::tuple<at::ScalarType, int64_t>> {
 protected:
  void SetUp() override { at::manual_seed(1); }
  at::ScalarType type() const { return std::get<0>(GetParam()); }
  int64_t K() const { return std::get<1>(GetParam()); }
  DType dtype() const { return type() == at::kFloat ? DType::kFloat32 : DType::kFloat64; }
};

// Complex multiplication by exp(i p theta^(-2k/K)), in float64.
at::Tensor oracle(const at::Tensor& x, int64_t start) {
  const int64_t S = x.size(1), K = x.size(3);
  const auto options = at::TensorOptions().dtype(at::kDouble);
  const at::Tensor frequency = at::pow(kTheta, at::arange(0, K, 2, options) / static_cast<double>(-K));
  const at::Tensor angle = at::outer(at::arange(start, start + S, options), frequency);
  const at::Tensor rotation = at::polar(at::ones_like(angle), angle).view({1, S, 1, K / 2});
  const at::Tensor pairs = at::view_as_complex(x.to(at::kDouble).reshape({x.size(0), S, x.size(2), K / 2, 2}));
  return at::view_as_real(pairs * rotation).reshape(x.sizes());
}

TEST_P(Rope, RotatesTheFirstHeadsOfPackedQkvAsComplexNumbers) {
  const int64_t B = 3, S = 9, H = 4, G = 2;
  const at::Tensor qkv = random({B * S, (H + 2 * G) * K()}, type()), before = qkv.clone();
  const at::Tensor view = qkv.view({B, S, H + 2 * G, K()}).narrow(2, 0, H + G);
  const at::Tensor expected = oracle(view, 0);
  rope_forward(view, rope_table(S, K(), kTheta, dtype()));
  EXPECT_LE(relative_error(view, expected), bound(type(), 1e-7));
  const int64_t rotated = (H + G) * K();
  EXPECT_TRUE(same_bits(qkv.narrow(1, rotated, G * K()), before.narrow(1, rotated, G * K())));  // v untouched
}

TEST_P(Rope, StartIsThePositionOfTheFirstRow) {
  const at::Tensor x = random({2, 3, 2, K()}, type()), expected = oracle(x, 1000);
  rope_forward(x, rope_table(1003, K(), kTheta, dtype()), 1000);
  EXPECT_LE(relative_error(x, expected), bound(type(), 1e-7));
}

TEST_P(Rope, BackwardIsTheGradient) {
  const at::Tensor x = random({2, 11, 3, K()}, at::kDouble).requires_grad_();
  const at::Tensor dy = random({2, 11, 3, K()}, type());
  oracle(x, 0).backward(dy.to(at::kDouble));
  const at::Tensor dx = dy.clone();
  rope_backward(dx, rope_table(11, K(), kTheta, dtype()));
  EXPECT_LE(relative_error(dx, x.grad()), bound(type(), 1e-7));
}

INSTANTIATE_TEST_SUITE_P(Widths, Rope,
                         testing::Combine(testing::Values(at::kFloat, at::kDouble),
                                          testing::Values<int64_t>(2, 6, 64, 70)));

TEST(RopeEdge, AWrongStartIsRefused) {
  EXPECT_TRUE(refused(
      [&] {
        rope_forward(at::zeros({1, 4, 1, 8}), rope_table(6, 8, kTheta, DType::kFloat32), 3);
      },
      "the table has 6"));
}

}  // namespace
}  // namespace hearth::ops::test
