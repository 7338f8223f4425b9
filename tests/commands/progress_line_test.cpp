// SPDX-License-Identifier: Apache-2.0
#include "commands/progress_line.h"

#include <gtest/gtest.h>

namespace hearth::commands {
namespace {

TEST(BytesBar, HasTheTotalAndThenRateAndTimeLeft) {
  constexpr int64_t kGiB = int64_t{1} << 30;
  const std::string bar = "writing  [#######.......................]  25 %";
  EXPECT_EQ(bytes_bar("writing", 4 * kGiB, 16 * kGiB), bar + "  4.00 GiB of 16.0 GiB");
  EXPECT_EQ(bytes_bar("writing", 4 * kGiB, 16 * kGiB, 0.5), bar + "  4.00 GiB of 16.0 GiB");
  EXPECT_EQ(bytes_bar("writing", 4 * kGiB, 16 * kGiB, 8), bar + "  4.00 GiB of 16.0 GiB  512.0 MiB/s  24 s left");
  EXPECT_EQ(bytes_bar("writing", 0, 0, 8), "writing  [..............................]   0 %");
  EXPECT_EQ(bytes_bar("writing", kGiB, kGiB, 8),
            "writing  [##############################] 100 %  1.00 GiB of 1.00 GiB");
}

}  // namespace
}  // namespace hearth::commands
