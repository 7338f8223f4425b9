// SPDX-License-Identifier: Apache-2.0
#include "base/text.h"

#include <gtest/gtest.h>

namespace hearth {
namespace {

TEST(JoinFirst, SaysHowManyFollow) {
  const std::vector<std::string> words = {"wq", "wk", "wv"};
  EXPECT_EQ(join_first(words, 3), "wq, wk, wv");
  EXPECT_EQ(join_first(words, 2), "wq, wk and 1 more");
  EXPECT_EQ(join_first(words, 1, "\n  "), "wq\n  and 2 more");
  EXPECT_EQ(join_first({}, 1), "");
}

}  // namespace
}  // namespace hearth
