// SPDX-License-Identifier: Apache-2.0
// The content of one lane of a product: 32 bits with the elements that are multiplied there. Kernels are templates over
// it; strides and depths of packed operands count lanes. Included once per instruction set (see simd-inl.h).
#if defined(HEARTH_OPS_LANE_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef HEARTH_OPS_LANE_INL_H_
#undef HEARTH_OPS_LANE_INL_H_
#else
#define HEARTH_OPS_LANE_INL_H_
#endif

#include <cstdint>

#include "ops/cpu/simd-inl.h"

HWY_BEFORE_NAMESPACE();
namespace hearth::ops::HWY_NAMESPACE {

// A lane is a float.
struct Floats {
  static constexpr int64_t kPerLane = 1;
  static constexpr int64_t lanes(int64_t n) { return n; }
  static HWY_INLINE V32 add_product(V32 sum, V32 a, V32 b) { return hn::MulAdd(a, b, sum); }
};

#if HEARTH_HAS_PAIRS
// A lane is two bfloat16 that are neighbours along k, as dot_pairs multiplies them: twice the products in the same
// time. Memory holds it as a float, whose bits are only moved.
struct Pairs {
  static constexpr int64_t kPerLane = 2;
  static constexpr int64_t lanes(int64_t n) { return (n + 1) / 2; }
  static HWY_INLINE V32 add_product(V32 sum, V32 a, V32 b) { return dot_pairs(sum, a, b); }
};
#endif

}  // namespace hearth::ops::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();
#endif
