// SPDX-License-Identifier: Apache-2.0
#include "infer/progress.h"

#include <gtest/gtest.h>

namespace hearth::infer {
namespace {

TEST(Progress, TheTimeLeftFollowsFromTheRateSinceTheStart) {
  EXPECT_EQ(progress_text("validation", "batches", {0, 640}, 3), "validation: 0 of 640 batches");
  EXPECT_EQ(progress_text("validation", "batches", {160, 640}, 10), "validation: 160 of 640 batches, 30 s left");
  EXPECT_EQ(progress_text("validation", "batches", {640, 640}, 40), "validation: 640 of 640 batches");
  EXPECT_EQ(progress_text("texts", "prompts", {30, 50, 20}, 60, ", 5 tokens/s"),
            "texts: 30 of 50 prompts, 5 tokens/s, 2 min 00 s left");
}

}  // namespace
}  // namespace hearth::infer
