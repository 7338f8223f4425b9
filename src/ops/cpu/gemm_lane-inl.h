// SPDX-License-Identifier: Apache-2.0
// Packs the operands of gemm.h into panels of lanes. Included once per instruction set (see simd-inl.h).
#if defined(HEARTH_OPS_GEMM_LANE_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef HEARTH_OPS_GEMM_LANE_INL_H_
#undef HEARTH_OPS_GEMM_LANE_INL_H_
#else
#define HEARTH_OPS_GEMM_LANE_INL_H_
#endif

#include <bit>
#include <cstdint>
#include <type_traits>

#include "ops/cpu/lane-inl.h"

HWY_BEFORE_NAMESPACE();
namespace hearth::ops::HWY_NAMESPACE {

// The elements of a panel. Each kind of lane defines how it is read from an operand's memory:
//   load(d, x): the lanes that begin at x, next to each other along K.
//   across(d, x, stride): the lanes whose first elements begin at x, of rows next to each other.
// one(x, stride, count): the lane at x, of which `count` elements exist, `stride` apart.
struct GemmFloats : Floats {
  using Element = float;
  template <class D>
  static HWY_INLINE hn::Vec<D> load(D d, const float* x) {
    return hn::LoadU(d, x);
  }
  template <class D>
  static HWY_INLINE hn::Vec<D> across(D d, const float* x, int64_t) {
    return hn::LoadU(d, x);
  }
  static float one(const float* x, int64_t, int64_t) { return *x; }
};

// bfloat16 as floats.
struct GemmWidened : Floats {
  using Element = c10::BFloat16;
  template <class D>
  static HWY_INLINE hn::VFromD<hn::RebindToUnsigned<D>> halves(D, const c10::BFloat16* x) {
    const hn::Rebind<uint16_t, D> d16;
    return hn::PromoteTo(hn::RebindToUnsigned<D>(), hn::LoadU(d16, reinterpret_cast<const uint16_t*>(x)));
  }
  template <class D>
  static HWY_INLINE hn::Vec<D> load(D d, const c10::BFloat16* x) {
    return load_all(d, x);
  }
  template <class D>
  static HWY_INLINE hn::Vec<D> across(D d, const c10::BFloat16* x, int64_t) {
    return load(d, x);
  }
  static float one(const c10::BFloat16* x, int64_t, int64_t) { return *x; }
};

#if HEARTH_HAS_PAIRS
struct GemmPairs : Pairs {
  using Element = c10::BFloat16;
  template <class D>
  static HWY_INLINE hn::Vec<D> load(D d, const c10::BFloat16* x) {
    return hn::LoadU(d, reinterpret_cast<const float*>(x));
  }
  template <class D>
  static HWY_INLINE hn::Vec<D> across(D d, const c10::BFloat16* x, int64_t stride) {
    return hn::BitCast(d, hn::Or(GemmWidened::halves(d, x), hn::ShiftLeft<16>(GemmWidened::halves(d, x + stride))));
  }
  static float one(const c10::BFloat16* x, int64_t stride, int64_t count) {
    const uint32_t second = count < 2 ? 0 : x[stride].x;
    return std::bit_cast<float>(second << 16 | x[0].x);
  }
};
#endif

// body(GemmFloats()), or for operands in bfloat16 body(GemmPairs()) or body(GemmWidened()). `pairs` only with
// has_bf16_dot().
template <class T, class Body>
HWY_INLINE void with_gemm_lane([[maybe_unused]] bool pairs, const Body& body) {
  if constexpr (std::is_same_v<T, float>) {
    body(GemmFloats());
  } else {
#if HEARTH_HAS_PAIRS
    if (pairs) return body(GemmPairs());
#endif
    body(GemmWidened());
  }
}

}  // namespace hearth::ops::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();
#endif
