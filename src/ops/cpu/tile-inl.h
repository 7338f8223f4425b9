// SPDX-License-Identifier: Apache-2.0
// Small matrix products for kernels that keep their operands in the caches, and 2^x. Included once per instruction set
// (see simd-inl.h).
//
// One product is C[m][n] (+)= sum_k A(m, k) B[k][n]. B's rows are read as vectors and A element by element: n runs over
// whole vectors, and neither operand is rearranged in memory. An element is a lane of 32 bits, Floats or Pairs. Strides
// and k count lanes; C is float32.
#if defined(HEARTH_OPS_TILE_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef HEARTH_OPS_TILE_INL_H_
#undef HEARTH_OPS_TILE_INL_H_
#else
#define HEARTH_OPS_TILE_INL_H_
#endif

#include <cstdint>

#include "ops/cpu/lane-inl.h"
#include "ops/cpu/simd-inl.h"

HWY_BEFORE_NAMESPACE();
namespace hearth::ops::HWY_NAMESPACE {

// A tile's accumulators, one vector of B a column and one element of A fit the registers: 32 of them, or 16. Each shape
// reaches 99 % of the fused multiply-add rate of a Zen 4 core; 8 x 2 with 16 registers 60 %.
constexpr int kTileRows = HWY_TARGET <= HWY_AVX3 ? 8 : 4;
constexpr int kTileVectors = HWY_TARGET <= HWY_AVX3 ? 2 : 3;
constexpr int64_t kTileColumns = kTileVectors * kLanes;

enum class StorageOrder { kRows, kColumns };  // A(m, k) = a[m * stride + k], or a[k * stride + m]

// One tile: kTileRows rows of C, kVectors vectors wide; finish(row, vector, sum) gets each of its sums.
template <class Lane, int kVectors, StorageOrder kOrder, class Finish>
HWY_INLINE void tile(const float* a, int64_t stride_a, const float* b, int64_t stride_b, int64_t depth,
                     const Finish& finish) {
  const F32 d;
  V32 sums[kTileRows][kVectors];
#pragma GCC unroll 8
  for (int r = 0; r < kTileRows; ++r) {
#pragma GCC unroll 4
    for (int v = 0; v < kVectors; ++v) sums[r][v] = hn::Zero(d);
  }
  for (int64_t k = 0; k < depth; ++k) {
    V32 columns[kVectors];
#pragma GCC unroll 4
    for (int v = 0; v < kVectors; ++v) columns[v] = hn::LoadU(d, b + v * kLanes);
#pragma GCC unroll 8
    for (int r = 0; r < kTileRows; ++r) {
      const V32 element = hn::Set(d, kOrder == StorageOrder::kRows ? a[r * stride_a] : a[r]);
#pragma GCC unroll 4
      for (int v = 0; v < kVectors; ++v) {
        sums[r][v] = Lane::add_product(sums[r][v], element, columns[v]);
      }
    }
    a += kOrder == StorageOrder::kRows ? 1 : stride_a;
    b += stride_b;
  }
#pragma GCC unroll 8
  for (int r = 0; r < kTileRows; ++r) {
#pragma GCC unroll 4
    for (int v = 0; v < kVectors; ++v) finish(r, v, sums[r][v]);
  }
}

// kTileRows rows of C over `vectors` vectors of columns; finish(row, column, sum) with column in floats.
template <class Lane, StorageOrder kOrder, class Finish>
HWY_INLINE void tile_row(const float* a, int64_t stride_a, const float* b, int64_t stride_b, int64_t depth,
                         int64_t vectors, const Finish& finish) {
  int64_t n = 0;
  const auto at = [&](int r, int v, V32 sum) HWY_ATTR { finish(r, (n + v) * kLanes, sum); };
  for (; n + kTileVectors <= vectors; n += kTileVectors) {
    tile<Lane, kTileVectors, kOrder>(a, stride_a, b + n * kLanes, stride_b, depth, at);
  }
  if (vectors - n == 1) tile<Lane, 1, kOrder>(a, stride_a, b + n * kLanes, stride_b, depth, at);
  if (vectors - n == 2) tile<Lane, 2, kOrder>(a, stride_a, b + n * kLanes, stride_b, depth, at);
}

// 2^x, 0 below 2^-127; NaN stays NaN. Relative error at most 8e-8 before the last rounding. The polynomial is the best
// of its degree on [-1/2, 1/2] (Remez), with coefficients rounded to float32.
HWY_INLINE V32 exp2(F32 d, V32 x) {
  const hn::RebindToSigned<F32> di;
  const V32 magic = hn::Set(d, 12582912.0f);  // 1.5 * 2^23: adding it leaves round(x) in the lowest bits
  x = hn::Max(hn::Set(d, -127.0f), x);        // in this order NaN passes
  const V32 shifted = hn::Add(x, magic);
  const V32 f = hn::Sub(x, hn::Sub(shifted, magic));
  V32 p = hn::Set(d, 0.0001534581242594868f);
#pragma GCC unroll 8
  for (const float c : {0.0013399930903688073f, 0.009618489071726799f, 0.05550328642129898f, 0.24022646248340607f,
                        0.6931471824645996f, 1.0f}) {
    p = hn::MulAdd(p, f, hn::Set(d, c));
  }
  const auto exponent = hn::Add(hn::BitCast(di, shifted), hn::Set(di, 127 - 0x4B400000));
  return hn::Mul(p, hn::BitCast(d, hn::ShiftLeft<23>(exponent)));
}

}  // namespace hearth::ops::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();
#endif
