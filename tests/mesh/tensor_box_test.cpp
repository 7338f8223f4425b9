// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include "checkpoint/example.h"

namespace hearth::mesh {
namespace {

// The flat indices of a box, in row-major order, by counting through every index of the tensor.
std::vector<int64_t> indices_of(const std::vector<int64_t>& shape, const Box& box) {
  std::vector<int64_t> flat;
  for (int64_t i = 0; i < checkpoint::numel_of(shape); ++i) {
    int64_t rest = i;
    bool inside = true;
    for (size_t d = shape.size(); d-- > 0;) {
      const int64_t at = rest % shape[d];
      rest /= shape[d];
      inside = inside && at >= box.offsets[d] && at < box.offsets[d] + box.sizes[d];
    }
    if (inside) flat.push_back(i);
  }
  return flat;
}

TEST(Boxes, OfEveryFlatRangeHoldExactlyItsElementsInOrder) {
  for (const std::vector<int64_t>& shape : std::vector<std::vector<int64_t>>{
           {}, {1}, {9}, {4, 5}, {1, 6}, {6, 1}, {2, 3, 4}, {3, 1, 4}, {2, 3, 2, 3}, {1, 1, 1, 5}}) {
    const int64_t n = checkpoint::numel_of(shape);
    for (int64_t begin = 0; begin <= n; ++begin) {
      for (int64_t end = begin; end <= n; ++end) {
        const std::vector<Box> boxes = boxes_of_flat_range(shape, begin, end);
        std::vector<int64_t> found, expected;
        for (const Box& box : boxes) {
          ASSERT_EQ(box.sizes.size(), shape.size());
          const std::vector<int64_t> part = indices_of(shape, box);
          ASSERT_EQ(static_cast<int64_t>(part.size()), box.numel());
          found.insert(found.end(), part.begin(), part.end());
        }
        for (int64_t i = begin; i < end; ++i) expected.push_back(i);
        ASSERT_EQ(found, expected) << formats::format_shape(shape) << " " << begin << " " << end;
        // A head and a tail for each dimension but the last, and what is between.
        ASSERT_LE(boxes.size(), shape.empty() ? 1 : 2 * shape.size() - 1);
      }
    }
  }
}

TEST(Boxes, OfAMatrixAreAtMostThreeAndOneWhereRowsAreWhole) {
  EXPECT_EQ(boxes_of_flat_range({4, 5}, 3, 18),
            (std::vector<Box>{{{0, 3}, {1, 2}}, {{1, 0}, {2, 5}}, {{3, 0}, {1, 3}}}));
  EXPECT_EQ(boxes_of_flat_range({4, 5}, 5, 15), (std::vector<Box>{{{1, 0}, {2, 5}}}));
  EXPECT_EQ(boxes_of_flat_range({4, 5}, 6, 8), (std::vector<Box>{{{1, 1}, {1, 2}}}));
  EXPECT_EQ(boxes_of_flat_range({}, 0, 1), (std::vector<Box>{{{}, {}}}));
  EXPECT_TRUE(boxes_of_flat_range({4, 5}, 7, 7).empty());
  EXPECT_TRUE(boxes_of_flat_range({0, 5}, 0, 0).empty());
}

TEST(Boxes, OverlapWhereTheyShareAnElement) {
  EXPECT_TRUE(overlaps({{0, 0}, {2, 3}}, {{1, 2}, {1, 1}}));
  EXPECT_FALSE(overlaps({{0, 0}, {2, 3}}, {{2, 0}, {1, 3}}));
  EXPECT_FALSE(overlaps({{0, 0}, {2, 3}}, {{0, 1}, {2, 0}}));
  EXPECT_TRUE(overlaps({{}, {}}, {{}, {}}));
}

}  // namespace
}  // namespace hearth::mesh
