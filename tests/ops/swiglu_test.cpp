// SPDX-License-Identifier: Apache-2.0
#include "ops/swiglu.h"

#include <ATen/ops/empty.h>
#include <ATen/ops/empty_like.h>
#include <ATen/ops/ones.h>
#include <ATen/ops/silu.h>
#include <ATen/ops/tensor.h>
#include <ATen/ops/zeros.h>

#include "compare.h"

namespace hearth::ops::test {
namespace {

constexpr double kSwigluError = 2e-7;

class Swiglu : public testing::TestWithParam<std::tuple<at::ScalarType, int64_t, int64_t>> {
 protected:
  void SetUp() override { at::manual_seed(1); }
  at::ScalarType type() const { return std::get<0>(GetParam()); }
  int64_t T() const { return std::get<1>(GetParam()); }
  int64_t F() const { return std::get<2>(GetParam()); }
};

at::Tensor oracle(const at::Tensor& gate_up) {
  const auto halves = gate_up.chunk(2, 1);
  return at::silu(halves[0]) * halves[1];
}

TEST_P(Swiglu, ForwardAgreesWithAten) {
  const at::Tensor gate_up = 5 * random({T(), 2 * F()}, type());
  const at::Tensor a = in_wider_rows(at::zeros({T(), F()}, gate_up.options()));
  swiglu_forward(a, in_wider_rows(gate_up));
  EXPECT_LE(relative_error(a, oracle(gate_up.to(at::kDouble))), bound(type(), kSwigluError));
  EXPECT_TRUE(surroundings_untouched(a));
}

TEST_P(Swiglu, BackwardAgreesWithAutogradAlsoInPlace) {
  const at::Tensor gate_up = 5 * random({T(), 2 * F()}, type()), da = random({T(), F()}, type());
  const at::Tensor oracle_in = leaf(gate_up);
  oracle(oracle_in).backward(da.to(at::kDouble));
  const at::Tensor d = at::empty_like(gate_up), a = at::empty_like(da), expected_a = at::empty_like(da);
  swiglu_backward(d, da, gate_up);
  EXPECT_LE(relative_error(d, oracle_in.grad()), bound(type(), kSwigluError));

  const at::Tensor in_place = gate_up.clone(), da_then_a = da.clone();
  swiglu_forward(expected_a, gate_up);
  swiglu_backward(in_place, da_then_a, in_place, da_then_a);
  EXPECT_TRUE(same_bits(in_place, d));
  EXPECT_LE(relative_error(da_then_a, expected_a), bound(type(), kSwigluError));
}

INSTANTIATE_TEST_SUITE_P(Shapes, Swiglu,
                         testing::Combine(testing::Values(at::kFloat, at::kDouble, at::kBFloat16),
                                          testing::Values<int64_t>(0, 1, 65), testing::Values<int64_t>(1, 17, 704)));

TEST(SwigluEdge, LargeGatesSaturateAndNanPropagates) {
  const at::Tensor gate_up =
      at::tensor({100.0, 1e30, -100.0, -1e30, std::nan(""), 1.0, 2.0, 2.0, 2.0, 2.0, 2.0, std::nan("")})
          .to(at::kFloat)
          .view({1, 12});
  const at::Tensor a = at::empty({1, 6}), d = at::empty({1, 12});
  swiglu_forward(a, gate_up);
  swiglu_backward(d, at::ones({1, 6}), gate_up);
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

}  // namespace
}  // namespace hearth::ops::test
