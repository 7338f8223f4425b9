// SPDX-License-Identifier: Apache-2.0
#include "formats/cast.h"

#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <cstring>
#include <limits>
#include <vector>

namespace hearth::formats {
namespace {

template <typename Bits>
bool has_nonfinite_in(const std::vector<Bits>& numbers, DType dtype) {
  return has_nonfinite(std::as_bytes(std::span(numbers)), dtype);
}

// Each of the 2^16 numbers, at each place among numbers whose exponents are one below the full one.
TEST(NonFinite, EachBfloat16AndEachFloat16AtEachPlace) {
  for (uint32_t bits = 0; bits < 0x10000; ++bits) {
    const bool bfloat16 = !std::isfinite(std::bit_cast<float>(bits << 16)), float16 = (bits >> 10 & 0x1f) == 0x1f;
    for (size_t place = 0; place < 7; ++place) {
      std::vector<uint16_t> numbers(7, place % 2 == 0 ? 0x7f7f : 0xff7f);
      numbers[place] = static_cast<uint16_t>(bits);
      ASSERT_EQ(has_nonfinite_in(numbers, DType::kBFloat16), bfloat16) << bits;
      for (uint16_t& number : numbers) number = place % 2 == 0 ? 0x7bff : 0xfbff;
      numbers[place] = static_cast<uint16_t>(bits);
      ASSERT_EQ(has_nonfinite_in(numbers, DType::kFloat16), float16) << bits;
    }
  }
}

TEST(NonFinite, WideNumbers) {
  using Single = std::numeric_limits<float>;
  using Double = std::numeric_limits<double>;
  for (const float odd : {Single::infinity(), -Single::infinity(), Single::quiet_NaN(), Single::signaling_NaN()}) {
    for (size_t place = 0; place < 5; ++place) {
      std::vector<float> numbers = {Single::max(), Single::lowest(), -0.0F, Single::denorm_min(), Single::max()};
      EXPECT_FALSE(has_nonfinite_in(numbers, DType::kFloat32));
      numbers[place] = odd;
      EXPECT_TRUE(has_nonfinite_in(numbers, DType::kFloat32)) << odd << " at " << place;
      std::vector<double> wide = {Double::max(), Double::lowest(), -0.0, Double::denorm_min(), 1};
      EXPECT_FALSE(has_nonfinite_in(wide, DType::kFloat64));
      wide[place] = odd;
      EXPECT_TRUE(has_nonfinite_in(wide, DType::kFloat64)) << odd << " at " << place;
    }
  }
}

}  // namespace
}  // namespace hearth::formats
