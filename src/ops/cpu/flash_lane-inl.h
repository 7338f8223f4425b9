// SPDX-License-Identifier: Apache-2.0
// Packs rows of a head as operands of tiles. FlashFloats and FlashPairs extend Floats and Pairs of tile-inl.h for
// attention; its kernels are templates over them. Included once per instruction set (see simd-inl.h).
//
// The order of elements in lanes depends on the product's sum: along a row (scores sum over the width) or down the rows
// (outputs sum over keys). With one element a lane both are the same.
#if defined(HEARTH_OPS_FLASH_LANE_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef HEARTH_OPS_FLASH_LANE_INL_H_
#undef HEARTH_OPS_FLASH_LANE_INL_H_
#else
#define HEARTH_OPS_FLASH_LANE_INL_H_
#endif

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <type_traits>

#include "ops/cpu/tile-inl.h"

HWY_BEFORE_NAMESPACE();
namespace hearth::ops::HWY_NAMESPACE {

// [count, K], rows `stride` elements apart. FlashFloats multiplies by `factor`; FlashPairs takes them as they are.
template <class T>
struct FlashRows {
  const T* x;
  int64_t stride, count, K;
  float factor = 1;
};

// Prefetches `count` rows into the second-level cache. Rows of a head are too far apart for the CPU's own prefetch.
template <class T>
HWY_INLINE void prefetch(const T* x, int64_t stride, int64_t count, int64_t K) {
  constexpr int64_t kLine = 64 / sizeof(T);
  for (int64_t i = 0; i < count; ++i) {
    for (int64_t k = 0; k < K; k += kLine) __builtin_prefetch(x + i * stride + k, 0, 2);
  }
}

// T is float or bfloat16, products are float32.
struct FlashFloats : Floats {
  static constexpr bool kScalesQueries = true;  // by the scores' factor
  static constexpr bool kRounds = false;        // scores on their way to lanes

  // dst [rows, width]; rows and columns past those of `from` are zero.
  template <class T>
  static HWY_INLINE void pack_along(float* dst, int64_t rows, int64_t width, const FlashRows<T>& from) {
    const F32 d;
    const V32 f = hn::Set(d, from.factor);
    const T* x = from.x;
    for (int64_t i = 0; i < from.count; ++i) {
      int64_t k = 0;
      for (; k + kLanes <= from.K; k += kLanes) hn::StoreU(hn::Mul(load(d, x + k, kLanes), f), d, dst + k);
      if (k < width) hn::StoreU(hn::Mul(load(d, x + k, from.K - k), f), d, dst + k);
      x += from.stride;
      dst += width;
    }
    std::fill_n(dst, (rows - from.count) * width, 0.0f);
  }
  template <class T>
  static HWY_INLINE void pack_down(float* dst, int64_t rows, int64_t width, const FlashRows<T>& from) {
    pack_along(dst, rows, width, from);
  }

  // dst [K, columns], columns past those of `from` are zero.
  template <class T>
  static HWY_INLINE void pack_columns(float* dst, int64_t columns, const FlashRows<T>& from) {
    const F32x4 d;
    const auto f = hn::Set(d, from.factor);
    const int64_t whole_rows = from.count / 4 * 4, whole_width = from.K / 4 * 4, stride = from.stride;
    for (int64_t i = 0; i < whole_rows; i += 4) {
      const T* x = from.x + i * stride;
      const auto row = [&](int64_t r, int64_t k) HWY_ATTR { return hn::Mul(load_all(d, x + r * stride + k), f); };
      for (int64_t k = 0; k < whole_width; k += 4) {
        store_transposed(dst + k * columns + i, columns, row(0, k), row(1, k), row(2, k), row(3, k));
      }
    }
    for (int64_t i = 0; i < from.count; ++i) {
      for (int64_t k = i < whole_rows ? whole_width : 0; k < from.K; ++k) {
        dst[k * columns + i] = from.factor * static_cast<float>(from.x[i * stride + k]);
      }
    }
    for (int64_t k = 0; k < from.K; ++k) std::fill(dst + k * columns + from.count, dst + (k + 1) * columns, 0.0f);
  }

  static HWY_INLINE V32 unit_of(const V32 (&rows)[1]) { return rows[0]; }
};

#if HEARTH_HAS_PAIRS
// Operands are the caller's bfloat16; only the softmax and its gradient are rounded.
struct FlashPairs : Pairs {
  static constexpr bool kScalesQueries = false;  // it would round queries again: scores are multiplied instead
  static constexpr bool kRounds = true;

  // dst [rows, width / 2]: (x[i][2k], x[i][2k+1]); width is a multiple of 16.
  static HWY_INLINE void pack_along(float* dst, int64_t rows, int64_t width, const FlashRows<c10::BFloat16>& from) {
    constexpr int64_t kStep = 16;
    const c10::BFloat16* x = from.x;
    for (int64_t i = 0; i < from.count; ++i) {
      for (int64_t k = 0; k < width; k += kStep) {
        c10::BFloat16 part[kStep] = {};
        if (k + kStep <= from.K) {
          std::memcpy(part, x + k, sizeof(part));
        } else {
          std::copy(x + std::min(k, from.K), x + from.K, part);
        }
        std::memcpy(dst + k / 2, part, sizeof(part));
      }
      x += from.stride;
      dst += width / 2;
    }
    std::fill_n(dst, (rows - from.count) * width / 2, 0.0f);
  }

  // dst [rows / 2, width]: (x[2i][k], x[2i+1][k]); rows is even.
  static HWY_INLINE void pack_down(float* dst, int64_t rows, int64_t width, const FlashRows<c10::BFloat16>& from) {
    const F32 d;
    const hn::RebindToUnsigned<F32> bits;
    for (int64_t i = 0; i < from.count; i += 2) {
      const c10::BFloat16 *first = from.x + i * from.stride, *second = first + from.stride;
      for_lanes(d, from.K, [&](int64_t k, int64_t n) HWY_ATTR {
        const auto lower = hn::ShiftRight<16>(hn::BitCast(bits, load(d, first + k, n)));
        const auto upper = i + 1 < from.count ? hn::BitCast(bits, load(d, second + k, n)) : hn::Zero(bits);
        hn::StoreU(hn::BitCast(d, hn::Or(lower, upper)), d, dst + k);
      });
      dst += width;
    }
    std::fill_n(dst, (rows - round_up(from.count, 2)) / 2 * width, 0.0f);
  }

  // dst [ceil(K / 2), columns]: (x[i][2k], x[i][2k+1]).
  static HWY_INLINE void pack_columns(float* dst, int64_t columns, const FlashRows<c10::BFloat16>& from) {
    for (int64_t i = 0; i < from.count; ++i) {
      const c10::BFloat16* x = from.x + i * from.stride;
      float* to = dst + i;
      for (int64_t k = 0; k + 1 < from.K; k += 2, to += columns) std::memcpy(to, x + k, sizeof(*to));
      if (from.K % 2 == 0) continue;
      const c10::BFloat16 last[2] = {x[from.K - 1], 0};
      std::memcpy(to, last, sizeof(last));
    }
    for (int64_t k = 0; k < from.K; k += 2) {
      std::fill(dst + k / 2 * columns + from.count, dst + (k / 2 + 1) * columns, 0.0f);
    }
  }

  static HWY_INLINE V32 ones() {
    const hn::RebindToUnsigned<F32> bits;
    return hn::BitCast(F32(), hn::Set(bits, 0x3F803F80u));
  }
  // From a tile's floats: lanes of neighbouring columns, dst [kTileRows, kTileColumns / 2], and of neighbouring rows,
  // dst [kTileRows / 2, kTileColumns].
  static HWY_INLINE void round_along(float* dst, int64_t stride, const float* from) {
    static_assert(kTileVectors == 2);
    const F32 d;
    for (int r = 0; r < kTileRows; ++r, from += kTileColumns) {
      hn::StoreU(pair_neighbours(hn::LoadU(d, from), hn::LoadU(d, from + kLanes)), d, dst + r * stride);
    }
  }
  static HWY_INLINE void round_down(float* dst, int64_t stride, const float* from) {
    const F32 d;
    for (int r = 0; r < kTileRows; r += 2, from += 2 * kTileColumns, dst += stride) {
      for (int64_t i = 0; i < kTileColumns; i += kLanes) {
        hn::StoreU(pair_lanes(hn::LoadU(d, from + i), hn::LoadU(d, from + kTileColumns + i)), d, dst + i);
      }
    }
  }
  static HWY_INLINE V32 unit_of(const V32 (&rows)[2]) { return pair_lanes(rows[0], rows[1]); }
};
#endif

// body(FlashPairs()) or body(FlashFloats()). `pairs` only with bfloat16 and has_bf16_dot().
template <class T, class Body>
HWY_INLINE void with_lane([[maybe_unused]] bool pairs, const Body& body) {
#if HEARTH_HAS_PAIRS
  if constexpr (std::is_same_v<T, c10::BFloat16>) {
    if (pairs) return body(FlashPairs());
  }
#endif
  body(FlashFloats());
}

}  // namespace hearth::ops::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();
#endif
