// SPDX-License-Identifier: Apache-2.0
// Stages of GPT-NeoX's pipeline. The bounds were computed by partition_balanced() of DeeperSpeed 0.9.3 (commit
// 0ae3578a) for slots, and of 0.16.5 (91d1c55b) for split.
#include <gmock/gmock.h>

#include "convert/neox/rank.h"

namespace hearth::convert {
namespace {

using Bounds = std::vector<int64_t>;

Bounds stages(int64_t layers, QkvLayout layout, int64_t count) {
  plan::ModelShape shape{};
  shape.layers.resize(static_cast<size_t>(layers));
  return neox_stages(shape, count, layout);
}

TEST(NeoxStages, AreThoseOfBothDeepSpeeds) {
  for (const QkvLayout layout : {QkvLayout::kSlots, QkvLayout::kSplit}) {
    EXPECT_EQ(stages(1, layout, 1), (Bounds{0, 6}));
    EXPECT_EQ(stages(2, layout, 2), (Bounds{0, 3, 7}));
    EXPECT_EQ(stages(3, layout, 3), (Bounds{0, 3, 5, 8}));
    EXPECT_EQ(stages(48, layout, 3), (Bounds{0, 18, 35, 53}));
  }
  const QkvLayout slots = QkvLayout::kSlots, split = QkvLayout::kSplit;
  EXPECT_EQ(stages(12, slots, 4), (Bounds{0, 5, 9, 13, 17}));
  EXPECT_EQ(stages(12, split, 4), (Bounds{0, 5, 9, 12, 17}));
  EXPECT_EQ(stages(32, slots, 4), (Bounds{0, 10, 19, 28, 37}));
  EXPECT_EQ(stages(32, split, 4), (Bounds{0, 10, 19, 27, 37}));
  EXPECT_EQ(stages(48, slots, 8), (Bounds{0, 8, 15, 22, 29, 36, 43, 50, 53}));
  EXPECT_EQ(stages(48, split, 8), (Bounds{0, 8, 15, 21, 27, 33, 39, 45, 53}));
  EXPECT_EQ(stages(32, slots, 12), (Bounds{0, 4, 7, 10, 13, 16, 19, 22, 25, 28, 31, 34, 37}));
  EXPECT_EQ(stages(12, split, 12), (Bounds{0, 3, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 17}));
}

}  // namespace
}  // namespace hearth::convert
