// SPDX-License-Identifier: Apache-2.0
// The computation of gemm.h: packing panels, and the micro-kernel. Included once per instruction set (see simd-inl.h).
#if defined(HEARTH_OPS_GEMM_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef HEARTH_OPS_GEMM_INL_H_
#undef HEARTH_OPS_GEMM_INL_H_
#else
#define HEARTH_OPS_GEMM_INL_H_
#endif

#include <hwy/cache_control.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>

#include "ops/cpu/gemm.h"
#include "ops/cpu/gemm_cut.h"
#include "ops/cpu/gemm_lane-inl.h"
#include "ops/cpu/simd-inl.h"

HWY_BEFORE_NAMESPACE();
namespace hearth::ops::HWY_NAMESPACE {

// The accumulators, the columns' vectors and one element fit 32 registers, or 16. A Zen 4 core reaches 99 % of its
// multiply-add rate with 8 x 2, 12 x 2, 14 x 2 and 8 x 3 vectors of AVX-512, and 98 % with 6 x 2 and 4 x 3 of AVX2.
// Model widths are multiples of 32.
constexpr int64_t kGemmRows = HWY_TARGET <= HWY_AVX3 ? 12 : 6;
constexpr int64_t kGemmVectors = 2;
constexpr int64_t kGemmColumns = kGemmVectors * kLanes;

// Packs kRows rows with K along them, `depth` whole lanes of each. Four rows by four lanes at a time are transposed in
// registers, while the next four rows are prefetched. If kRows is not a multiple of four, the last four rows overlap
// the ones before them.
template <class Lane, int64_t kRows>
HWY_INLINE void pack_transposed(float* panel, const typename Lane::Element* x, int64_t stride, int64_t depth) {
  const F32x4 d;
  constexpr int64_t kStretch = 128;  // a part of the panel that stays in the first-level cache while its rows are read
  constexpr int64_t kStep = 4 * Lane::kPerLane;
  for (int64_t k0 = 0; k0 < depth; k0 += kStretch) {
    const int64_t count = std::min(kStretch, depth - k0);
    for (int64_t i = 0; i < kRows; i += 4) {
      const int64_t row = std::min(i, kRows - 4);
      const auto* from = x + row * stride + k0 * Lane::kPerLane;
      const auto* next = i + 4 < kRows ? from + 4 * stride : x + (k0 + kStretch) * Lane::kPerLane;
      float* to = panel + k0 * kRows + row;
      int64_t k = 0;
      for (; k + 4 <= count; k += 4, from += kStep, next += kStep, to += 4 * kRows) {
        for (int64_t j = 0; j < 4; ++j) __builtin_prefetch(next + j * stride);
        store_transposed(to, kRows, Lane::load(d, from), Lane::load(d, from + stride), Lane::load(d, from + 2 * stride),
                         Lane::load(d, from + 3 * stride));
      }
      for (; k < count; ++k, from += Lane::kPerLane, to += kRows) {
        for (int64_t j = 0; j < 4; ++j) to[j] = Lane::one(from + j * stride, 1, Lane::kPerLane);
      }
    }
  }
}

// Packs panels of kRows of the operand's rows [begin, end), over the lanes [k, k + depth), one after the other. Rows
// past `end` are zero; their results are never written. K: the operand's elements along it.
template <class Lane, int64_t kRows>
HWY_NOINLINE void pack_panels(float* to, const GemmOperand<typename Lane::Element>& x, int64_t K, GemmRows rows,
                              int64_t k, int64_t depth) {
  const int64_t begin = rows.begin, end = rows.end;
  const int64_t whole = (end - begin) / kRows, rest = (end - begin) % kRows;
  const int64_t whole_depth = std::min(depth, K / Lane::kPerLane - k);  // without half a lane at the end of K
  const int64_t step_i = x.k_is_contiguous ? x.stride : 1, step_k = x.k_is_contiguous ? 1 : x.stride;
  const auto element = [&](int64_t i, int64_t j) { return x.data + i * step_i + (k + j) * Lane::kPerLane * step_k; };
  if (x.k_is_contiguous) {
    for (int64_t p = 0; p < whole; ++p) {
      pack_transposed<Lane, kRows>(to + p * kRows * depth, element(begin + p * kRows, 0), x.stride, whole_depth);
    }
  } else {
    // Along the rows of memory, because a stride of many pages costs time, but only a few of them for each panel.
    // Panels are apart by multiples of the first-level cache's set span, and a set has few ways.
    constexpr int64_t kTogether = 8;
    constexpr int64_t kWidth = kRows % kLanes == 0 ? kLanes : 4;
    const hn::CappedTag<float, kWidth> d;
    for (int64_t first = 0; first < whole_depth; first += kTogether) {
      for (int64_t p = 0; p < whole; ++p) {
        for (int64_t j = first; j < std::min(whole_depth, first + kTogether); ++j) {
          const auto* from = element(begin + p * kRows, j);
          float* panel = to + (p * depth + j) * kRows;
          for (int64_t i = 0; i < kRows; i += kWidth) {
            const int64_t row = std::min(i, kRows - kWidth);
            hn::StoreU(Lane::across(d, from + row, x.stride), d, panel + row);
          }
        }
      }
    }
  }
  const auto pack_one = [&](int64_t row, int64_t j) {
    const int64_t count = std::min(Lane::kPerLane, K - (k + j) * Lane::kPerLane);
    to[(row / kRows * depth + j) * kRows + row % kRows] = Lane::one(element(begin + row, j), step_k, count);
  };
  for (int64_t j = whole_depth; j < depth; ++j) {
    for (int64_t row = 0; row < whole * kRows; ++row) pack_one(row, j);
  }
  if (rest == 0) return;
  for (int64_t j = 0; j < depth; ++j) {
    for (int64_t row = whole * kRows; row < end - begin; ++row) pack_one(row, j);
    std::fill_n(to + (whole * depth + j) * kRows + rest, kRows - rest, 0.0f);
  }
}

// Prefetches the next rows to pack into the second-level cache while tiles are multiplied, one line now and then.
// Without it packing waits for memory, 5 to 9 % of a product's time.
class Ahead {
 public:
  // The rows [begin, end) of x over the elements [k, k + depth), spread over the next `steps` calls of step().
  template <class T>
  Ahead(const GemmOperand<T>& x, GemmRows rows, int64_t k, int64_t depth, int64_t steps)
      : steps_(steps), jump_(x.stride * static_cast<int64_t>(sizeof(T))) {
    const auto [begin, end] = rows;
    const int64_t width = x.k_is_contiguous ? depth : end - begin;
    rows_ = x.k_is_contiguous ? end - begin : depth;
    row_ = reinterpret_cast<const std::byte*>(x.k_is_contiguous ? x.data + begin * x.stride + k
                                                                : x.data + k * x.stride + begin);
    lines_per_row_ = (width * static_cast<int64_t>(sizeof(T)) + kLine - 1) / kLine;
    total_ = rows_ * lines_per_row_;
  }

  HWY_INLINE void step() {
    due_ += total_;
    while (due_ >= steps_ && rows_ > 0) {
      due_ -= steps_;
      __builtin_prefetch(row_ + line_ * kLine, 0, 2);
      if (++line_ < lines_per_row_) continue;
      line_ = 0;
      row_ += jump_;
      --rows_;
    }
  }

 private:
  static constexpr int64_t kLine = 64;
  const std::byte* row_;
  int64_t rows_, line_ = 0, lines_per_row_, total_, steps_, jump_, due_ = 0;
};

constexpr int64_t kGemmStep = 16;  // lanes of a tile's depth between two calls of Ahead::step()

// The target of a tile's sums: operator() takes a vector of them, one() an element.
struct ToFloats {
  float* c;
  int64_t stride;
  bool add;
  const void* at(int r, int64_t n) const { return c + r * stride + n; }
  HWY_INLINE void operator()(int r, int64_t n, V32 sum) const {
    const F32 d;
    float* to = c + r * stride + n;
    hn::StoreU(add ? hn::Add(hn::LoadU(d, to), sum) : sum, d, to);
  }
  void one(int64_t r, int64_t n, float sum) const {
    float& to = c[r * stride + n];
    to = add ? to + sum : sum;
  }
};

struct ToBfloat16 {
  c10::BFloat16* c;
  int64_t stride;
  bool add;
  const float* before;  // [kGemmRows][kGemmColumns], the sums of earlier blocks of K; null for the first block
  const void* at(int r, int64_t n) const { return c + r * stride + n; }
  HWY_INLINE void operator()(int r, int64_t n, V32 sum) const {
    const F32 d;
    c10::BFloat16* to = c + r * stride + n;
    if (before != nullptr) sum = hn::Add(hn::LoadU(d, before + r * kGemmColumns + n), sum);
    if (add) sum = hn::Add(load(d, to, kLanes), sum);
    store(sum, d, to, kLanes);
  }
  void one(int64_t r, int64_t n, float sum) const {
    c10::BFloat16& to = c[r * stride + n];
    if (before != nullptr) sum += before[r * kGemmColumns + n];
    to = add ? static_cast<float>(to) + sum : sum;
  }
};

// One tile of C, of panels a [depth][kGemmRows] and b [depth][kGemmColumns]. C's lines are prefetched meanwhile, one at
// a time: all at once would fill the core's fill buffers, and the panels would wait.
template <class Lane, class To>
HWY_INLINE void multiply_tile(const float* a, const float* b, int64_t depth, const To& to, Ahead& ahead) {
  constexpr int kRows = kGemmRows, kVectors = kGemmVectors;
  const F32 d;
  int line = 0;  // of two in each row
  V32 sums[kRows][kVectors];
#pragma GCC unroll 16
  for (int r = 0; r < kRows; ++r) {
#pragma GCC unroll 4
    for (int v = 0; v < kVectors; ++v) sums[r][v] = hn::Zero(d);
  }
  for (int64_t k = 0; k < depth; ++k) {
    if (k % kGemmStep == 0) {
      ahead.step();
      if (line < 2 * kRows) __builtin_prefetch(to.at(line / 2, line % 2 * (kGemmColumns - 1)), 1);
      ++line;
    }
    // The prefetch runs on into the next panel, which follows.
#pragma GCC unroll 4
    for (int v = 0; v < kVectors; ++v) hwy::Prefetch(b + v * kLanes + 8 * kGemmColumns);
    hwy::Prefetch(a + 16 * kRows);
    V32 columns[kVectors];
#pragma GCC unroll 4
    for (int v = 0; v < kVectors; ++v) columns[v] = hn::LoadU(d, b + v * kLanes);
#pragma GCC unroll 16
    for (int r = 0; r < kRows; ++r) {
      const V32 lane = hn::Set(d, a[r]);
#pragma GCC unroll 4
      for (int v = 0; v < kVectors; ++v) sums[r][v] = Lane::add_product(sums[r][v], lane, columns[v]);
    }
    a += kRows;
    b += kGemmColumns;
  }
#pragma GCC unroll 16
  for (int r = 0; r < kRows; ++r) {
#pragma GCC unroll 4
    for (int v = 0; v < kVectors; ++v) to(r, v * kLanes, sums[r][v]);
  }
}

// The same for a tile at C's edge, with only rows x columns elements.
template <class Lane, class To>
HWY_NOINLINE void multiply_edge(const float* a, const float* b, int64_t depth, const To& to, int64_t rows,
                                int64_t columns, Ahead& ahead) {
  HWY_ALIGN float whole[kGemmRows * kGemmColumns];
  multiply_tile<Lane>(a, b, depth, ToFloats{whole, kGemmColumns, false}, ahead);
  for (int64_t r = 0; r < rows; ++r) {
    for (int64_t n = 0; n < columns; ++n) to.one(r, n, whole[r * kGemmColumns + n]);
  }
}

}  // namespace hearth::ops::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();
#endif
