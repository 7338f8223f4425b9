// SPDX-License-Identifier: Apache-2.0
// Amounts as people read them.
#include "base/quantity.h"

#include <gtest/gtest.h>

namespace hearth {
namespace {

TEST(Quantity, FlopsHaveThePrefixesOfPhysics) {
  EXPECT_EQ(format_flops(12), "12 FLOP");
  EXPECT_EQ(format_flops(172e3), "172 kFLOP");
  EXPECT_EQ(format_flops(29.12e9), "29.1 GFLOP");
  EXPECT_EQ(format_flops(3.4e12), "3.40 TFLOP");
}

TEST(Quantity, ADurationHasTheTwoDigitsThatMatter) {
  EXPECT_EQ(format_duration(0), "0.0 s");
  EXPECT_EQ(format_duration(0.000028), "28 us");
  EXPECT_EQ(format_duration(0.0006), "1 ms");
  EXPECT_EQ(format_duration(0.0128), "13 ms");
  EXPECT_EQ(format_duration(0.0994), "99 ms");
  EXPECT_EQ(format_duration(0.0996), "0.1 s");
  EXPECT_EQ(format_duration(0.161), "0.16 s");
  EXPECT_EQ(format_duration(0.996), "1.0 s");
  EXPECT_EQ(format_duration(9.94), "9.9 s");
  EXPECT_EQ(format_duration(9.96), "10 s");
  EXPECT_EQ(format_duration(59.6), "1 min 00 s");
  EXPECT_EQ(format_duration(3600 + 7 * 60), "1 h 07 min");
  EXPECT_EQ(format_duration(3 * 86400 + 4 * 3600), "3 d 04 h");
}

TEST(Quantity, BytesHaveThreeDigitsOrMore) {
  EXPECT_EQ(format_bytes(0), "0 B");
  EXPECT_EQ(format_bytes(1023), "1023 B");
  EXPECT_EQ(format_bytes(1024), "1.00 KiB");
  EXPECT_EQ(format_bytes(1536), "1.50 KiB");
  EXPECT_EQ(format_bytes(10234), "9.99 KiB");  // 9.9941
  EXPECT_EQ(format_bytes(10236), "10.0 KiB");  // 9.9961
  EXPECT_EQ(format_bytes(11744051), "11.2 MiB");
  EXPECT_EQ(format_bytes(1048525), "1.00 MiB");  // 1023.95 KiB
  EXPECT_EQ(format_bytes(int64_t{80} << 40), "80.0 TiB");
}

TEST(Quantity, AmountsThatDifferAreWrittenUntilItShows) {
  using Two = std::pair<std::string, std::string>;
  constexpr int64_t kGiB = int64_t{1} << 30;
  EXPECT_EQ(format_bytes_apart(kGiB, 2 * kGiB), Two("1.00 GiB", "2.00 GiB"));
  EXPECT_EQ(format_bytes_apart(kGiB, kGiB), Two("1.00 GiB", "1.00 GiB"));
  EXPECT_EQ(format_bytes_apart(kGiB + (4 << 20), kGiB), Two("1.004 GiB", "1.000 GiB"));
  EXPECT_EQ(format_bytes_apart(100 * kGiB + (4 << 20), 100 * kGiB), Two("100.004 GiB", "100.000 GiB"));
  EXPECT_EQ(format_bytes_apart(kGiB + 64, kGiB), Two("1073741888 B", "1073741824 B"));
}

TEST(Quantity, ACountHasThreeDigits) {
  EXPECT_EQ(format_count(999), "999");
  EXPECT_EQ(format_count(1250), "1.25 k");
  EXPECT_EQ(format_count(56.1e6), "56.1 M");
  EXPECT_EQ(format_count(8.03e9), "8.03 B");
}

TEST(Quantity, ThingsAreCountedInTheSingularAndThePlural) {
  EXPECT_EQ(counted(0, "file"), "0 files");
  EXPECT_EQ(counted(1, "file"), "1 file");
  EXPECT_EQ(counted(2, "file"), "2 files");
  EXPECT_EQ(counted(1, "micro-batch"), "1 micro-batch");
  EXPECT_EQ(counted(8, "micro-batch"), "8 micro-batches");
}

}  // namespace
}  // namespace hearth
