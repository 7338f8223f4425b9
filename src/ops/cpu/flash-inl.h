// SPDX-License-Identifier: Apache-2.0
// Shared by flash attention's forward and backward: blocks in scratch memory, and which of their elements are visible.
// Included once per instruction set (see simd-inl.h).
#if defined(HEARTH_OPS_FLASH_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef HEARTH_OPS_FLASH_INL_H_
#undef HEARTH_OPS_FLASH_INL_H_
#else
#define HEARTH_OPS_FLASH_INL_H_
#endif

#include <algorithm>
#include <cmath>
#include <cstdint>

#include "base/quantity.h"
#include "ops/cpu/flash_attention.h"
#include "ops/cpu/flash_lane-inl.h"

HWY_BEFORE_NAMESPACE();
namespace hearth::ops::HWY_NAMESPACE {

constexpr float kLog2E = 1.44269504088896340736f, kLn2 = 0.69314718055994530942f;
constexpr float kHidden = -3e38f;  // finite: a difference of two is not NaN

// The factor of products of queries and keys of width K; `given` unless it is 0.
inline float score_scale(int64_t K, float given) { return given > 0 ? given : 1 / std::sqrt(static_cast<float>(K)); }

// Hands out parts of a scratch buffer, each aligned to a cache line.
struct Parts {
  float* next;
  float* take(int64_t count) {
    float* part = next;
    next += round_up(count, 16);
    return part;
  }
};

// The visible keys of consecutive queries: the extremes of their ranges.
struct VisibleRange {
  int64_t begin_min, begin_max, end_min, end_max;
  bool hides_some(int64_t first, int64_t last) const { return first < begin_max || last > end_min; }
};

// `visible` has the keys of `count` queries. Writes their ranges to begin and end [columns] as floats; columns past
// `count` repeat the last query's.
HWY_INLINE VisibleRange load_visible(float* begin, float* end, int64_t columns, const VisibleKeys* visible,
                                     int64_t count) {
  for (int64_t i = 0; i < columns; ++i) {
    const VisibleKeys& keys = visible[std::min(i, count - 1)];
    begin[i] = static_cast<float>(keys.begin);
    end[i] = static_cast<float>(keys.end);
  }
  return {visible[0].begin, visible[count - 1].begin, visible[0].end, visible[count - 1].end};
}

// The lanes of queries that see key j.
HWY_INLINE hn::Mask<F32> sees(F32 d, int64_t j, const float* begin, const float* end) {
  const V32 key = hn::Set(d, static_cast<float>(j));
  return hn::And(hn::Ge(key, hn::LoadU(d, begin)), hn::Lt(key, hn::LoadU(d, end)));
}

}  // namespace hearth::ops::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();
#endif
