// SPDX-License-Identifier: Apache-2.0
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "ops/cpu/tile_test.cpp"
#include <hwy/foreach_target.h>
//
#include <algorithm>
#include <bit>
#include <cmath>
#include <limits>
#include <vector>

#include "ops/cpu/bf16_dot.h"
#include "ops/cpu/scratch.h"
#include "ops/cpu/tile-inl.h"

HWY_BEFORE_NAMESPACE();
namespace hearth::ops::HWY_NAMESPACE {

void exp2_all(float* y, const float* x, int64_t n) {
  const F32 d;
  for_lanes(d, n, [&](int64_t i, int64_t count) HWY_ATTR { store(exp2(d, load(d, x + i, count)), d, y + i, count); });
}

// The rows that one call of tile_row writes.
int64_t rows_of_a_tile() { return kTileRows; }
int64_t lanes() { return kLanes; }

// b is [depth, width], a and b in lanes. Returns false without such lanes.
template <class Lane>
void product(float* c, const float* a, int64_t stride_a, bool columns, const float* b, int64_t depth, int64_t width) {
  const F32 d;
  const auto write = [&](int r, int64_t n, V32 x) HWY_ATTR { hn::StoreU(x, d, c + r * width + n); };
  if (columns) {
    tile_row<Lane, StorageOrder::kColumns>(a, stride_a, b, width, depth, width / kLanes, write);
  } else {
    tile_row<Lane, StorageOrder::kRows>(a, stride_a, b, width, depth, width / kLanes, write);
  }
}
bool product_of_floats(float* c, const float* a, int64_t stride_a, bool columns, const float* b, int64_t depth,
                       int64_t width) {
  product<Floats>(c, a, stride_a, columns, b, depth, width);
  return true;
}
bool product_of_pairs([[maybe_unused]] float* c, [[maybe_unused]] const float* a, [[maybe_unused]] int64_t stride_a,
                      [[maybe_unused]] bool columns, [[maybe_unused]] const float* b, [[maybe_unused]] int64_t depth,
                      [[maybe_unused]] int64_t width) {
#if HEARTH_HAS_PAIRS
  if (has_bf16_dot()) {
    product<Pairs>(c, a, stride_a, columns, b, depth, width);
    return true;
  }
#endif
  return false;
}

}  // namespace hearth::ops::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
#include "ops/targets.h"

namespace hearth::ops {

HWY_EXPORT(exp2_all);
HWY_EXPORT(rows_of_a_tile);
HWY_EXPORT(lanes);
HWY_EXPORT(product_of_floats);
HWY_EXPORT(product_of_pairs);

namespace {

TEST(Exp2, IsWithinTwoRoundingsOfLibmOverItsWholeRange) {
  std::vector<float> x, y;
  for (int i = -126 * 512; i <= 127 * 512; ++i) x.push_back(static_cast<float>(i) / 512 + 1e-4f);
  y.resize(x.size());
  test::with_each_target([&] {
    HWY_DYNAMIC_DISPATCH(exp2_all)(y.data(), x.data(), static_cast<int64_t>(x.size()));
    double worst = 0;
    for (size_t i = 0; i < x.size(); ++i) worst = std::max(worst, std::abs(double(y[i]) / std::exp2(double(x[i])) - 1));
    EXPECT_LE(worst, 2 * 0x1p-23) << worst;
  });
}

TEST(Exp2, WholeNumbersAreExactAndTheRestOfTheNumbersIsZeroOrNan) {
  const float infinity = std::numeric_limits<float>::infinity();
  const std::vector<float> x = {0, 1, -1, -126, 127, -127, -150, -3e38f, -infinity, std::nanf("")};
  std::vector<float> y(x.size());
  test::with_each_target([&] {
    HWY_DYNAMIC_DISPATCH(exp2_all)(y.data(), x.data(), static_cast<int64_t>(x.size()));
    EXPECT_EQ(std::vector<float>(y.begin(), y.begin() + 9),
              (std::vector<float>{1, 2, 0.5f, 0x1p-126f, 0x1p127f, 0, 0, 0, 0}));
    EXPECT_TRUE(std::isnan(y[9]));
  });
}

// Small whole numbers: every sum is exact, in any order. With two a lane they are bfloat16.
void expect_exact_products(bool pairs) {
  const int64_t rows = HWY_DYNAMIC_DISPATCH(rows_of_a_tile)(), depth = 13, per_unit = pairs ? 2 : 1;
  const auto number = [](size_t i, size_t step, size_t most) { return static_cast<float>(i * step % most) - 5; };
  const auto units_of = [&](size_t n, size_t step, size_t most) {
    std::vector<float> lanes(n);
    for (size_t i = 0; i < n; ++i) {
      const c10::BFloat16 pair[2] = {number(2 * i, step, most), number(2 * i + 1, step, most)};
      lanes[i] = pairs ? std::bit_cast<float>(pair) : number(i, step, most);
    }
    return lanes;
  };
  for (int64_t vectors = 1; vectors <= 7; ++vectors) {
    const int64_t width = vectors * HWY_DYNAMIC_DISPATCH(lanes)();
    for (const bool columns : {false, true}) {
      const int64_t stride = columns ? rows + 3 : depth + 5;
      const std::vector<float> a = units_of(static_cast<size_t>((rows + depth) * (stride + depth)), 7, 11);
      const std::vector<float> b = units_of(static_cast<size_t>(depth * width), 5, 13);
      std::vector<float> c(static_cast<size_t>(rows * width), -1);
      const bool done =
          pairs ? HWY_DYNAMIC_DISPATCH(product_of_pairs)(c.data(), a.data(), stride, columns, b.data(), depth, width)
                : HWY_DYNAMIC_DISPATCH(product_of_floats)(c.data(), a.data(), stride, columns, b.data(), depth, width);
      if (!done) continue;
      for (int64_t r = 0; r < rows; ++r) {
        for (int64_t n = 0; n < width; ++n) {
          float expected = 0;
          for (int64_t k = 0; k < depth * per_unit; ++k) {
            const int64_t lane = k / per_unit, part = k % per_unit;
            const int64_t in_a = columns ? lane * stride + r : r * stride + lane, in_b = lane * width + n;
            expected += number(static_cast<size_t>(in_a * per_unit + part), 7, 11) *
                        number(static_cast<size_t>(in_b * per_unit + part), 5, 13);
          }
          ASSERT_EQ(c[static_cast<size_t>(r * width + n)], expected) << r << " " << n << " of " << width;
        }
      }
    }
  }
}

TEST(Tile, ProductsOfEveryWidthAndBothLayoutsAreExact) {
  test::with_each_target([] { expect_exact_products(false); });
}

TEST(Tile, ProductsOfPairsOfEveryWidthAndBothLayoutsAreExact) {
  test::with_each_target([] { expect_exact_products(true); });
}

TEST(Scratch, IsKeptFromCallToCallAndGrows) {
  std::byte* const small = thread_scratch(Scratch::kTask, 1000);
  EXPECT_EQ(reinterpret_cast<uintptr_t>(small) % 64, 0u);
  EXPECT_EQ(thread_scratch(Scratch::kTask, 10), small);
  EXPECT_NE(thread_scratch(Scratch::kShared, 1000), small);
  std::byte* const large = thread_scratch(Scratch::kTask, 1 << 20);
  std::fill_n(large, 1 << 20, std::byte{1});
  EXPECT_EQ(thread_scratch(Scratch::kTask, 1000), large);
}

}  // namespace
}  // namespace hearth::ops
#endif
