// SPDX-License-Identifier: Apache-2.0
#include "ops/activation.h"

#include <ATen/ops/empty.h>
#include <ATen/ops/empty_like.h>
#include <ATen/ops/gelu.h>
#include <ATen/ops/ones.h>
#include <ATen/ops/relu.h>
#include <ATen/ops/sigmoid.h>
#include <ATen/ops/silu.h>
#include <ATen/ops/tensor.h>
#include <ATen/ops/zeros.h>

#include "compare.h"

namespace hearth::ops::test {
namespace {

using plan::Activation;

// The exponential of gelu_tanh enlarges the rounding errors of its cubic argument, and that of clamped_swiglu those of
// a product with 1.702.
double error_of(Activation function) {
  return function == Activation::kGeluTanh ? 8e-7 : function == Activation::kClampedSwiglu ? 4e-7 : 2e-7;
}

at::Tensor of_aten(Activation function, const at::Tensor& g) {
  switch (function) {
    case Activation::kSilu:
      return at::silu(g);
    case Activation::kGelu:
      return at::gelu(g);
    case Activation::kGeluTanh:
      return at::gelu(g, "tanh");
    case Activation::kRelu2:
      return at::relu(g).square();
    case Activation::kClampedSwiglu:
      break;
  }
  const at::Tensor c = g.clamp_max(7);
  return c * at::sigmoid(1.702 * c);
}

at::Tensor of_up(Activation function, const at::Tensor& u) {
  return function == Activation::kClampedSwiglu ? u.clamp(-7, 7) + 1 : u;
}

class Activations : public testing::TestWithParam<std::tuple<Activation, bool, at::ScalarType, int64_t, int64_t>> {
 protected:
  void SetUp() override { at::manual_seed(1); }
  Activation function() const { return std::get<0>(GetParam()); }
  at::ScalarType type() const { return std::get<2>(GetParam()); }
  int64_t T() const { return std::get<3>(GetParam()); }
  int64_t F() const { return std::get<4>(GetParam()); }
  bool gated() const { return std::get<1>(GetParam()); }
  at::Tensor input() const { return 5 * random({T(), (gated() ? 2 : 1) * F()}, type()); }
  at::Tensor oracle(const at::Tensor& x) const {
    if (!gated()) return of_aten(function(), x);
    const auto halves = x.chunk(2, 1);
    return of_aten(function(), halves[0]) * of_up(function(), halves[1]);
  }
};

TEST_P(Activations, ForwardAgreesWithAten) {
  const at::Tensor x = input(), a = in_wider_rows(at::zeros({T(), F()}, x.options()));
  activation_forward(function(), a, in_wider_rows(x));
  EXPECT_LE(relative_error(a, oracle(x.to(at::kDouble))), bound(type(), error_of(function())));
  EXPECT_TRUE(surroundings_untouched(a));
}

TEST_P(Activations, BackwardAgreesWithAutogradAlsoInPlace) {
  const at::Tensor x = input(), da = random({T(), F()}, type());
  const at::Tensor oracle_in = leaf(x);
  oracle(oracle_in).backward(da.to(at::kDouble));
  const at::Tensor d = at::empty_like(x), a = at::empty_like(da), expected_a = at::empty_like(da);
  activation_backward(function(), d, da, x);
  EXPECT_LE(relative_error(d, oracle_in.grad()), bound(type(), error_of(function())));

  const at::Tensor in_place = x.clone(), da_then_a = da.clone();
  activation_forward(function(), expected_a, x);
  activation_backward(function(), in_place, da_then_a, in_place, da_then_a);
  EXPECT_TRUE(same_bits(in_place, d));
  EXPECT_TRUE(same_bits(da_then_a, expected_a));
}

INSTANTIATE_TEST_SUITE_P(Shapes, Activations,
                         testing::Combine(testing::Values(Activation::kSilu, Activation::kGelu, Activation::kGeluTanh,
                                                          Activation::kRelu2, Activation::kClampedSwiglu),
                                          testing::Bool(), testing::Values(at::kFloat, at::kDouble, at::kBFloat16),
                                          testing::Values<int64_t>(0, 1, 65), testing::Values<int64_t>(1, 17, 704)));

TEST(ActivationEdge, LargeGatesSaturateAndNanPropagates) {
  const at::Tensor gate_up =
      at::tensor({100.0, 1e30, -100.0, -1e30, std::nan(""), 1.0, 2.0, 2.0, 2.0, 2.0, 2.0, std::nan("")})
          .to(at::kFloat)
          .view({1, 12});
  for (const Activation function : {Activation::kSilu, Activation::kGelu, Activation::kGeluTanh}) {
    SCOPED_TRACE(static_cast<int>(function));
    const at::Tensor a = at::empty({1, 6}), d = at::empty({1, 12});
    activation_forward(function, a, gate_up);
    activation_backward(function, d, at::ones({1, 6}), gate_up);
    EXPECT_EQ(a[0][0].item<float>(), 200.0f);
    EXPECT_EQ(a[0][1].item<float>(), 2e30f);
    EXPECT_NEAR(a[0][2].item<float>(), 0.0f, 1e-30f);
    EXPECT_NEAR(a[0][3].item<float>(), 0.0f, 1e-6f);
    EXPECT_TRUE(std::isnan(a[0][4].item<float>()));
    EXPECT_TRUE(std::isnan(a[0][5].item<float>()));
    EXPECT_TRUE(std::isnan(d[0][4].item<float>()));
    EXPECT_TRUE(std::isnan(d[0][10].item<float>()));
    EXPECT_EQ(d[0][0].item<float>(), 2.0f);
    EXPECT_EQ(d.slice(1, 0, 4).isnan().any().item<bool>(), false);
  }
}

TEST(ActivationEdge, ReluOfNegativesIsZeroAndNanPropagates) {
  const at::Tensor x = at::tensor({-3.0f, -0.0f, 0.0f, 3.0f, std::nanf("")}).view({1, 5});
  const at::Tensor a = at::empty({1, 5}), d = at::empty({1, 5});
  activation_forward(Activation::kRelu2, a, x);
  activation_backward(Activation::kRelu2, d, at::ones({1, 5}), x);
  EXPECT_TRUE(a.narrow(1, 0, 4).equal(at::tensor({0.0f, 0.0f, 0.0f, 9.0f}).view({1, 4})));
  EXPECT_TRUE(d.narrow(1, 0, 4).equal(at::tensor({0.0f, 0.0f, 0.0f, 6.0f}).view({1, 4})));
  EXPECT_TRUE(a.select(1, 4).isnan().all().item<bool>() && d.select(1, 4).isnan().all().item<bool>());
}

TEST(ActivationEdge, OtherWidthsAreRefused) {
  const at::Tensor x = at::zeros({2, 15}), a = at::zeros({2, 5});
  EXPECT_TRUE(refused([&] { activation_forward(Activation::kSilu, a, x); }, "15 columns for 5"));
}

}  // namespace
}  // namespace hearth::ops::test
