// SPDX-License-Identifier: Apache-2.0
#include "ops/reduce.h"

#include <ATen/ops/empty.h>
#include <ATen/ops/full.h>

#include "compare.h"

namespace hearth::ops::test {
namespace {

double sum_of_squares(const at::Tensor& x, double before = 0) {
  const at::Tensor sum = at::full({1}, before, at::kDouble);
  add_sum_of_squares(sum, x);
  return sum.item<double>();
}

class Reduce : public testing::TestWithParam<std::tuple<at::ScalarType, int64_t>> {
 protected:
  void SetUp() override { at::manual_seed(1); }
  at::ScalarType type() const { return std::get<0>(GetParam()); }
  int64_t n() const { return std::get<1>(GetParam()); }
};

TEST_P(Reduce, SumOfSquaresIsADoubleSumThatThreadsDoNotChange) {
  const at::Tensor x = random({n()}, type());
  const double expected = x.to(at::kDouble).pow(2).sum().item<double>();
  const double sum = sum_of_squares(x);
  EXPECT_NEAR(sum, expected, 1e-12 * expected);
  EXPECT_EQ(sum_of_squares(x, 7), 7 + sum) << "it is added";
  at::set_num_threads(1);
  EXPECT_EQ(sum_of_squares(x), sum);
  at::set_num_threads(2);
}

TEST_P(Reduce, OneBadElementAnywhereIsSeen) {
  const at::Tensor x = random({n()}, type());
  for (const double bad : {std::nan(""), std::numeric_limits<double>::infinity()}) {
    for (const int64_t i : {int64_t{0}, n() / 2, n() - 1}) {
      if (n() == 0) continue;
      const at::Tensor with = x.clone();
      with[i] = bad;
      EXPECT_FALSE(std::isfinite(sum_of_squares(with))) << i;
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Sizes, Reduce,
                         testing::Combine(testing::Values(at::kFloat, at::kDouble),
                                          testing::Values<int64_t>(0, 1, 23, 16384, 100003)));

TEST(BlockSums, AddUpToTheSameBitsWhereverATensorIsCut) {
  for (const at::ScalarType type : {at::kFloat, at::kDouble}) {
    const int64_t n = 9 * kSumBlock + 77, blocks = 10;
    const at::Tensor x = random({n}, type);
    const at::Tensor whole = at::empty({blocks}, at::kDouble);
    block_sums_of_squares(whole, x);
    const at::Tensor exact = x.to(at::kDouble).square();
    for (int64_t i = 0; i < blocks; ++i) {
      const double expected =
          exact.narrow(0, i * kSumBlock, std::min(kSumBlock, n - i * kSumBlock)).sum().item<double>();
      EXPECT_NEAR(whole[i].item<double>(), expected, 1e-12 * expected) << i;
    }
    const int64_t cut = 4 * kSumBlock;
    const at::Tensor parts = at::empty({blocks}, at::kDouble);
    block_sums_of_squares(parts.narrow(0, 0, 4), x.narrow(0, 0, cut));
    block_sums_of_squares(parts.narrow(0, 4, 6), x.narrow(0, cut, n - cut));
    EXPECT_TRUE(parts.equal(whole));
    const at::Tensor sum = at::full({1}, 1.0, at::kDouble);
    add_in_order(sum, whole);
    EXPECT_NEAR(sum.item<double>(), 1 + exact.sum().item<double>(), 1e-9);
  }
}

}  // namespace
}  // namespace hearth::ops::test
