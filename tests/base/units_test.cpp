// Amounts as people read them.
#include "base/units.h"

#include <gtest/gtest.h>

namespace hearth {
namespace {

TEST(Units, FlopsHaveThePrefixesOfPhysics) {
  EXPECT_EQ(format_flops(12), "12 FLOP");
  EXPECT_EQ(format_flops(172e3), "172 kFLOP");
  EXPECT_EQ(format_flops(29.12e9), "29.1 GFLOP");
  EXPECT_EQ(format_flops(3.4e12), "3.40 TFLOP");
}

TEST(Units, ADurationHasTheTwoDigitsThatMatter) {
  EXPECT_EQ(format_duration(0), "0.0 s");
  EXPECT_EQ(format_duration(0.0128), "13 ms");
  EXPECT_EQ(format_duration(0.0994), "99 ms");
  EXPECT_EQ(format_duration(0.0996), "0.1 s");
  EXPECT_EQ(format_duration(9.94), "9.9 s");
  EXPECT_EQ(format_duration(9.96), "10 s");
  EXPECT_EQ(format_duration(59.6), "1 min 00 s");
  EXPECT_EQ(format_duration(3600 + 7 * 60), "1 h 07 min");
  EXPECT_EQ(format_duration(3 * 86400 + 4 * 3600), "3 d 04 h");
}

TEST(Units, ACountHasThreeDigits) {
  EXPECT_EQ(format_count(999), "999");
  EXPECT_EQ(format_count(1250), "1.25 k");
  EXPECT_EQ(format_count(56.1e6), "56.1 M");
  EXPECT_EQ(format_count(8.03e9), "8.03 B");
}

}  // namespace
}  // namespace hearth
