// SPDX-License-Identifier: Apache-2.0
#include "base/random.h"

#include <gtest/gtest.h>

#include <cmath>

namespace hearth {
namespace {

// Known-answer vectors of Philox4x32-10 as published with Random123 (kat_vectors).
TEST(Random, PhiloxMatchesThePublishedVectors) {
  EXPECT_EQ(philox({{0, 0}}, 0, 0), (std::array<uint32_t, 4>{0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8}));
  EXPECT_EQ(philox({{~0u, ~0u}}, ~0ull, ~0ull),
            (std::array<uint32_t, 4>{0x408f276d, 0x41c83b0e, 0xa20bc7c6, 0x6d5451fd}));
  EXPECT_EQ(philox({{0xa4093822, 0x299f31d0}}, 0x85a308d3243f6a88ull, 0x0370734413198a2eull),
            (std::array<uint32_t, 4>{0xd16cfe09, 0x94fdcceb, 0x5001e420, 0x24126ea1}));
}

TEST(Random, NormalHasMeanZeroAndVarianceOne) {
  const RandomKey key = random_key(7, "test");
  double sum = 0, sum_squares = 0;
  constexpr int kCount = 200000;
  for (int i = 0; i < kCount; ++i) {
    const double x = random_normal(key, static_cast<uint64_t>(i));
    sum += x;
    sum_squares += x * x;
  }
  EXPECT_NEAR(sum / kCount, 0, 4 / std::sqrt(kCount));
  EXPECT_NEAR(sum_squares / kCount, 1, 4 * std::sqrt(2.0 / kCount));
}

TEST(Random, PurposesAndSeedsGiveDifferentStreams) {
  EXPECT_NE(random_u64(random_key(1, "a"), 0), random_u64(random_key(1, "b"), 0));
  EXPECT_NE(random_u64(random_key(1, "a"), 0), random_u64(random_key(2, "a"), 0));
}

}  // namespace
}  // namespace hearth
