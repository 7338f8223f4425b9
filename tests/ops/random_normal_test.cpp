// SPDX-License-Identifier: Apache-2.0
#include "ops/random_normal.h"

#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <limits>
#include <vector>

#include "targets.h"

namespace hearth::ops::test {
namespace {

constexpr double kInfinite = std::numeric_limits<double>::infinity();

void expect_base_randoms_values(int64_t n, uint64_t first, double std, double bound) {
  const RandomKey key = random_key(5, "normal");
  constexpr float kUntouched = 12345;
  std::vector<float> values(static_cast<size_t>(n) + 1, kUntouched);
  fill_normal(values.data(), n, key, first, std, bound);
  EXPECT_EQ(values.back(), kUntouched);
  int64_t wrong = 0;
  for (int64_t i = 0; i < n; ++i) {
    const auto expected =
        static_cast<float>(random_truncated_normal(key, first + static_cast<uint64_t>(i), std, bound));
    wrong += std::bit_cast<uint32_t>(values[static_cast<size_t>(i)]) != std::bit_cast<uint32_t>(expected);
  }
  EXPECT_EQ(wrong, 0) << n << " from " << first << ", " << std << " within " << bound;
}

TEST(RandomNormal, ValuesAreBaseRandomsToTheLastBit) {
  with_each_target([] {
    expect_base_randoms_values(150001, 0, 0.02, kInfinite);
    expect_base_randoms_values(50003, 777, 1, 3);
    expect_base_randoms_values(1001, 0, 0, kInfinite);  // signed zeros
  });
}

TEST(RandomNormal, ARangeMayBeginAndEndAnywhere) {
  with_each_target([] {
    for (int64_t n = 0; n < 40; ++n)
      for (const uint64_t first : {uint64_t{0}, uint64_t{3}, (uint64_t{1} << 32) - 17, uint64_t{5} << 40})
        expect_base_randoms_values(n, first, 0.5, 1);
  });
}

// std puts the value about halfway between two floats: one unit in a double's last place decides which one it becomes.
TEST(RandomNormal, AValueBetweenTwoFloatsIsRoundedAsBaseRandomRoundsIt) {
  const RandomKey key = random_key(5, "normal");
  with_each_target([&] {
    int64_t wrong = 0;
    for (uint64_t i = 0; i < 3000; ++i) {
      const double std = (1 + 0x1p-24) / random_normal(key, i);
      float values[16];
      fill_normal(values, 16, key, i, std, kInfinite);
      wrong += values[0] != static_cast<float>(std * random_normal(key, i));
    }
    EXPECT_EQ(wrong, 0);
  });
}

// Half of the draws are outside the bound: many are drawn again.
TEST(RandomNormal, ANarrowBoundIsKept) {
  with_each_target([] { expect_base_randoms_values(20011, 1, 1, 0.6745); });
}

}  // namespace
}  // namespace hearth::ops::test
