// The arithmetic of gemm.h: packing panels, and the micro-kernel. Included once per instruction set (see simd-inl.h).
#if defined(HEARTH_OPS_GEMM_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef HEARTH_OPS_GEMM_INL_H_
#undef HEARTH_OPS_GEMM_INL_H_
#else
#define HEARTH_OPS_GEMM_INL_H_
#endif

#include <hwy/cache_control.h>

#include <algorithm>
#include <cstdint>
#include <cstring>

#include "ops/gemm_cut.h"
#include "ops/simd-inl.h"

HWY_BEFORE_NAMESPACE();
namespace hearth::ops::HWY_NAMESPACE {

// The accumulators, the columns' vectors and one element fit 32 registers, or 16. A core of a Zen 4 reaches 99 % of its
// multiply-add rate with 8 x 2, 12 x 2, 14 x 2 and 8 x 3 vectors of AVX-512, 98 % with 6 x 2 and 4 x 3 of AVX2; widths
// of whole 32 divide those of models.
constexpr int64_t kGemmLanes = hn::MaxLanes(F32());
constexpr int64_t kGemmRows = HWY_TARGET <= HWY_AVX3 ? 12 : 6;
constexpr int64_t kGemmVectors = 2;
constexpr int64_t kGemmColumns = kGemmVectors * kGemmLanes;

// A panel is [depth][kRows]. Four rows by four k at a time are transposed in registers; where kRows is no multiple of
// four, the last four overlap those before them.
template <int64_t kRows>
HWY_INLINE void pack_transposed(float* panel, const float* x, int64_t stride, int64_t depth) {
  const hn::CappedTag<float, 4> d;
  const hn::Repartition<double, decltype(d)> wide;
  constexpr int64_t kStretch = 128;  // what of the panel stays in the first-level cache while its rows are read
  for (int64_t k0 = 0; k0 < depth; k0 += kStretch) {
    const int64_t count = std::min(kStretch, depth - k0);
    for (int64_t i = 0; i < kRows; i += 4) {
      const int64_t row = std::min(i, kRows - 4);
      const float* from = x + row * stride + k0;
      float* to = panel + k0 * kRows + row;
      int64_t k = 0;
      for (; k + 4 <= count; k += 4, from += 4, to += 4 * kRows) {
        const auto r0 = hn::LoadU(d, from), r1 = hn::LoadU(d, from + stride);
        const auto r2 = hn::LoadU(d, from + 2 * stride), r3 = hn::LoadU(d, from + 3 * stride);
        const auto low01 = hn::BitCast(wide, hn::InterleaveLower(d, r0, r1));
        const auto low23 = hn::BitCast(wide, hn::InterleaveLower(d, r2, r3));
        const auto high01 = hn::BitCast(wide, hn::InterleaveUpper(d, r0, r1));
        const auto high23 = hn::BitCast(wide, hn::InterleaveUpper(d, r2, r3));
        hn::StoreU(hn::BitCast(d, hn::InterleaveLower(wide, low01, low23)), d, to);
        hn::StoreU(hn::BitCast(d, hn::InterleaveUpper(wide, low01, low23)), d, to + kRows);
        hn::StoreU(hn::BitCast(d, hn::InterleaveLower(wide, high01, high23)), d, to + 2 * kRows);
        hn::StoreU(hn::BitCast(d, hn::InterleaveUpper(wide, high01, high23)), d, to + 3 * kRows);
      }
      for (; k < count; ++k, ++from, to += kRows) {
        for (int64_t j = 0; j < 4; ++j) to[j] = from[j * stride];
      }
    }
  }
}

// Panels of kRows of the operand's rows [begin, end), over [k, k + depth), one behind the other. Rows behind `end` are
// zero; what is computed from them is never written.
template <int64_t kRows>
HWY_NOINLINE void pack_panels(float* to, const GemmOperand& x, int64_t begin, int64_t end, int64_t k, int64_t depth) {
  const int64_t whole = (end - begin) / kRows, rest = (end - begin) % kRows;
  if (x.k_is_contiguous) {
    for (int64_t p = 0; p < whole; ++p) {
      pack_transposed<kRows>(to + p * kRows * depth, x.data + (begin + p * kRows) * x.stride + k, x.stride, depth);
    }
  } else {
    // Along the rows of memory: a stride of many pages is taken once a row, not once a panel.
    for (int64_t j = 0; j < depth; ++j) {
      const float* from = x.data + (k + j) * x.stride + begin;
      for (int64_t p = 0; p < whole; ++p) {
        std::memcpy(to + (p * depth + j) * kRows, from + p * kRows, kRows * sizeof(float));
      }
    }
  }
  if (rest == 0) return;
  float* panel = to + whole * kRows * depth;
  const int64_t first = begin + whole * kRows;
  for (int64_t j = 0; j < depth; ++j) {
    for (int64_t i = 0; i < rest; ++i) {
      panel[j * kRows + i] =
          x.k_is_contiguous ? x.data[(first + i) * x.stride + k + j] : x.data[(k + j) * x.stride + first + i];
    }
    std::fill_n(panel + j * kRows + rest, kRows - rest, 0.0f);
  }
}

// What is packed next is brought into the second-level cache while tiles are multiplied, a line now and then: read only
// when it is packed, it comes at the speed of memory, and 5 to 9 % of a product's time are spent waiting for it.
class Ahead {
 public:
  // The rows [begin, end) of x over [k, k + depth), spread over the next `steps` calls of step().
  Ahead(const GemmOperand& x, int64_t begin, int64_t end, int64_t k, int64_t depth, int64_t steps)
      : steps_(steps), jump_(x.stride) {
    const int64_t width = x.k_is_contiguous ? depth : end - begin;
    rows_ = x.k_is_contiguous ? end - begin : depth;
    row_ = x.k_is_contiguous ? x.data + begin * x.stride + k : x.data + k * x.stride + begin;
    lines_per_row_ = (width + kLine - 1) / kLine;
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
  static constexpr int64_t kLine = 16;
  const float* row_;
  int64_t rows_, line_ = 0, lines_per_row_, total_, steps_, jump_, due_ = 0;
};

constexpr int64_t kGemmStep = 16;  // multiply-adds of a tile's element between two calls of Ahead::step()

// C (+)= A B, one tile: a [depth][kGemmRows], b [depth][kGemmColumns].
HWY_INLINE void multiply_tile(const float* a, const float* b, int64_t depth, float* c, int64_t stride_c,
                              bool accumulate, Ahead& ahead) {
  constexpr int kRows = kGemmRows, kVectors = kGemmVectors;
  const F32 d;
#pragma GCC unroll 16
  for (int r = 0; r < kRows; ++r) __builtin_prefetch(c + r * stride_c, 1);
#pragma GCC unroll 16
  for (int r = 0; r < kRows; ++r) __builtin_prefetch(c + r * stride_c + kGemmColumns - 1, 1);
  V32 sums[kRows][kVectors];
#pragma GCC unroll 16
  for (int r = 0; r < kRows; ++r) {
#pragma GCC unroll 4
    for (int v = 0; v < kVectors; ++v) sums[r][v] = hn::Zero(d);
  }
  for (int64_t k = 0; k < depth; ++k) {
    if (k % kGemmStep == 0) ahead.step();
      // Behind a panel lies the next one.
#pragma GCC unroll 4
    for (int v = 0; v < kVectors; ++v) hwy::Prefetch(b + v * kGemmLanes + 8 * kGemmColumns);
    hwy::Prefetch(a + 16 * kRows);
    V32 columns[kVectors];
#pragma GCC unroll 4
    for (int v = 0; v < kVectors; ++v) columns[v] = hn::LoadU(d, b + v * kGemmLanes);
#pragma GCC unroll 16
    for (int r = 0; r < kRows; ++r) {
      const V32 element = hn::Set(d, a[r]);
#pragma GCC unroll 4
      for (int v = 0; v < kVectors; ++v) sums[r][v] = hn::MulAdd(element, columns[v], sums[r][v]);
    }
    a += kRows;
    b += kGemmColumns;
  }
  if (accumulate) {
#pragma GCC unroll 16
    for (int r = 0; r < kRows; ++r) {
#pragma GCC unroll 4
      for (int v = 0; v < kVectors; ++v) {
        sums[r][v] = hn::Add(hn::LoadU(d, c + r * stride_c + v * kGemmLanes), sums[r][v]);
      }
    }
  }
#pragma GCC unroll 16
  for (int r = 0; r < kRows; ++r) {
#pragma GCC unroll 4
    for (int v = 0; v < kVectors; ++v) hn::StoreU(sums[r][v], d, c + r * stride_c + v * kGemmLanes);
  }
}

// The same for a tile at C's edge, of which rows x columns exist.
HWY_NOINLINE void multiply_edge(const float* a, const float* b, int64_t depth, float* c, int64_t stride_c,
                                bool accumulate, int64_t rows, int64_t columns, Ahead& ahead) {
  HWY_ALIGN float whole[kGemmRows * kGemmColumns];
  multiply_tile(a, b, depth, whole, kGemmColumns, false, ahead);
  for (int64_t r = 0; r < rows; ++r) {
    for (int64_t n = 0; n < columns; ++n) {
      const float sum = whole[r * kGemmColumns + n];
      c[r * stride_c + n] = accumulate ? c[r * stride_c + n] + sum : sum;
    }
  }
}

}  // namespace hearth::ops::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();
#endif
