// SPDX-License-Identifier: Apache-2.0
#include "ops/rows.h"

#include <ATen/ops/ones.h>
#include <ATen/ops/zeros.h>
#include <fmt/format.h>

#include "compare.h"

namespace hearth::ops::test {
namespace {

class BiasTest : public testing::TestWithParam<at::ScalarType> {};

TEST_P(BiasTest, IsAddedToEachRowAndRoundedOnce) {
  for (const auto& [T, N] : {std::pair<int64_t, int64_t>{1, 1}, {37, 31}, {300, 264}}) {
    const at::Tensor y = random({T, N}, GetParam()), bias = random({N}, GetParam()), out = in_wider_rows(y);
    add_bias(out, bias);
    EXPECT_TRUE(same_bits(out, (y.to(at::kDouble) + bias.to(at::kDouble)).to(GetParam()))) << T << " x " << N;
    EXPECT_TRUE(surroundings_untouched(out));
  }
}

TEST_P(BiasTest, TheGradientIsTheSumOfTheRowsAndIsAdded) {
  for (const auto& [T, N] : {std::pair<int64_t, int64_t>{1, 1}, {37, 31}, {3000, 264}}) {
    const at::Tensor dy = random({T, N}, GetParam()), dbias = at::ones({N}, sum_type(GetParam()));
    bias_gradient(dbias, in_wider_rows(dy));
    const at::Tensor wide = dy.to(at::kDouble);
    const double terms = (wide.abs().sum(0) + 1).norm().item<double>();
    EXPECT_LE((dbias - (wide.sum(0) + 1)).norm().item<double>() / terms, GetParam() == at::kDouble ? 1e-14 : 1e-7)
        << T << " x " << N;
  }
}

INSTANTIATE_TEST_SUITE_P(Types, BiasTest, testing::Values(at::kFloat, at::kDouble, at::kBFloat16),
                         [](const auto& info) { return std::string(c10::toString(info.param)); });

TEST(BiasEdge, BitsDoNotDependOnTheNumberOfThreads) {
  at::manual_seed(2);
  const at::Tensor dy = at::randn({1999, 700});
  std::vector<at::Tensor> sums;
  for (const int threads : {1, 2, 3, 2}) {
    at::set_num_threads(threads);
    sums.push_back(at::zeros({700}));
    bias_gradient(sums.back(), dy);
  }
  at::set_num_threads(2);
  for (const at::Tensor& sum : sums) EXPECT_TRUE(same_bits(sum, sums[0]));
}

TEST(BiasEdge, ABiasOfAnotherWidthIsRefused) {
  EXPECT_TRUE(refused([] { add_bias(at::ones({2, 8}), at::ones({7})); }, "expected 8 contiguous elements, got 7"));
}

}  // namespace
}  // namespace hearth::ops::test
