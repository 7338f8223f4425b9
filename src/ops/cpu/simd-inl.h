// SPDX-License-Identifier: Apache-2.0
// Shared by the vector kernels: loops over lanes with a safe tail. Included once per instruction set by Highway's
// foreach_target, between HWY_BEFORE_NAMESPACE and HWY_AFTER_NAMESPACE, hence without an ordinary guard.
//
// The tail goes through a small buffer: without AVX-512, masked loads may read past the end.
//
// Lanes are always float32. Memory is float32 or bfloat16, by the pointer's type, and a kernel that is a template over
// it computes the same for both. A store to bfloat16 rounds to nearest, ties to even, as c10::BFloat16 does (NaN
// becomes 0x7FC0). HWY_EXPORT takes no templates, so a kernel `row` is exported as row_f32 and row_bf16.
#if defined(HEARTH_OPS_SIMD_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef HEARTH_OPS_SIMD_INL_H_
#undef HEARTH_OPS_SIMD_INL_H_
#else
#define HEARTH_OPS_SIMD_INL_H_
#endif

#include <c10/util/BFloat16.h>
#include <hwy/highway.h>

#include <cstdint>
#include <cstring>

HWY_BEFORE_NAMESPACE();
namespace hearth::ops::HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

using F32 = hn::ScalableTag<float>;
using V32 = hn::Vec<F32>;
constexpr int64_t kLanes = hn::MaxLanes(F32());  // of V32; a compile-time constant on x86

// All lanes of D as floats, from p. A bfloat16 is the upper half of a float32.
template <class D>
HWY_INLINE hn::Vec<D> load_all(D d, const float* p) {
  return hn::LoadU(d, p);
}
template <class D>
HWY_INLINE hn::Vec<D> load_all(D d, const c10::BFloat16* p) {
  const hn::RebindToUnsigned<D> d32;
  const hn::Rebind<uint16_t, D> d16;
  return hn::BitCast(d, hn::ShiftLeft<16>(hn::PromoteTo(d32, hn::LoadU(d16, reinterpret_cast<const uint16_t*>(p)))));
}

// `count` elements from p as floats; the lanes past them are `fill`.
template <class T>
HWY_INLINE V32 load(F32 d, const T* p, int64_t count, float fill = 0) {
  const auto lanes = static_cast<int64_t>(hn::Lanes(d));
  if (count == lanes) return load_all(d, p);
  HWY_ALIGN float buffer[kLanes];
  for (int64_t i = 0; i < lanes; ++i) buffer[i] = i < count ? static_cast<float>(p[i]) : fill;
  return hn::Load(d, buffer);
}

HWY_INLINE void store(V32 v, F32 d, float* p, int64_t count) {
  if (count == static_cast<int64_t>(hn::Lanes(d))) {
    hn::StoreU(v, d, p);
    return;
  }
  HWY_ALIGN float buffer[kLanes];
  hn::Store(v, d, buffer);
  std::memcpy(p, buffer, static_cast<size_t>(count) * sizeof(float));
}

// Rounds up above half a unit of the last kept place, down below it, and at the half to the even number.
HWY_INLINE void store(V32 v, F32 d, c10::BFloat16* p, int64_t count) {
  const hn::RebindToUnsigned<F32> d32;
  const hn::RebindToSigned<F32> d32_signed;
  const hn::Rebind<uint16_t, F32> d16;
  const auto bits = hn::BitCast(d32, v);
  const auto is_odd = hn::And(hn::ShiftRight<16>(bits), hn::Set(d32, 1u));
  const auto rounded = hn::ShiftRight<16>(hn::Add(bits, hn::Add(is_odd, hn::Set(d32, 0x7FFFu))));
  const auto kept = hn::IfThenElse(hn::RebindMask(d32, hn::IsNaN(v)), hn::Set(d32, 0x7FC0u), rounded);
  const auto halves = hn::DemoteTo(d16, hn::BitCast(d32_signed, kept));  // saturates, but all are below 65536
  auto* to = reinterpret_cast<uint16_t*>(p);
  if (count == static_cast<int64_t>(hn::Lanes(d))) {
    hn::StoreU(halves, d16, to);
    return;
  }
  HWY_ALIGN uint16_t buffer[kLanes];
  hn::Store(halves, d16, buffer);
  std::memcpy(to, buffer, static_cast<size_t>(count) * sizeof(uint16_t));
}

// body(i, count) for i = 0, lanes, 2 lanes, ...; count < lanes only in the last call. Bodies carry HWY_ATTR.
template <class Body>
HWY_INLINE void for_lanes(F32 d, int64_t n, const Body& body) {
  const auto lanes = static_cast<int64_t>(hn::Lanes(d));
  int64_t i = 0;
  for (; i + lanes <= n; i += lanes) body(i, lanes);
  if (i < n) body(i, n - i);
}

#undef HEARTH_HAS_PAIRS
#define HEARTH_HAS_PAIRS (HWY_ARCH_X86 && HWY_TARGET <= HWY_AVX3)
#if HEARTH_HAS_PAIRS
// Two bfloat16 a lane, the first in its lower half: sum + a.first * b.first + a.second * b.second. Only with
// has_bf16_dot() (ops/cpu/bf16_dot.h). Numbers below 2^-126 count as zero. Calls the instruction by name: Highway has
// no target with it before version 1.1.
HWY_INLINE V32 dot_pairs(V32 sum, V32 a, V32 b) {
  __asm__("vdpbf16ps %2, %1, %0" : "+v"(sum.raw) : "v"(a.raw), "v"(b.raw));
  return sum;
}

// Two vectors of floats as such pairs, rounded to nearest, ties to even; NaN stays NaN. Pairs of neighbours: (first[0],
// first[1]), (first[2], first[3]), ..., then second's.
HWY_INLINE V32 pair_neighbours(V32 first, V32 second) {
  V32 pairs;
  __asm__("vcvtne2ps2bf16 %2, %1, %0" : "=v"(pairs.raw) : "v"(second.raw), "v"(first.raw));
  return pairs;
}

// Pairs of equal lanes: (lower[0], upper[0]), (lower[1], upper[1]), ...
HWY_INLINE V32 pair_lanes(V32 lower, V32 upper) {
  alignas(64) static constexpr uint16_t kFrom[32] = {0, 16, 1, 17, 2,  18, 3,  19, 4,  20, 5,  21, 6,  22, 7,  23,
                                                     8, 24, 9, 25, 10, 26, 11, 27, 12, 28, 13, 29, 14, 30, 15, 31};
  const __m512i pairs = _mm512_castps_si512(pair_neighbours(lower, upper).raw);
  return V32{_mm512_castsi512_ps(_mm512_permutexvar_epi16(_mm512_load_si512(kFrom), pairs))};
}
#endif

// Transposes four rows of four: to[j * stride + i] = row i's element j.
using F32x4 = hn::CappedTag<float, 4>;
HWY_INLINE void store_transposed(float* to, int64_t stride, hn::Vec<F32x4> r0, hn::Vec<F32x4> r1, hn::Vec<F32x4> r2,
                                 hn::Vec<F32x4> r3) {
  const F32x4 d;
  const hn::Repartition<double, F32x4> wide;
  const auto low01 = hn::BitCast(wide, hn::InterleaveLower(d, r0, r1));
  const auto low23 = hn::BitCast(wide, hn::InterleaveLower(d, r2, r3));
  const auto high01 = hn::BitCast(wide, hn::InterleaveUpper(d, r0, r1));
  const auto high23 = hn::BitCast(wide, hn::InterleaveUpper(d, r2, r3));
  hn::StoreU(hn::BitCast(d, hn::InterleaveLower(wide, low01, low23)), d, to);
  hn::StoreU(hn::BitCast(d, hn::InterleaveUpper(wide, low01, low23)), d, to + stride);
  hn::StoreU(hn::BitCast(d, hn::InterleaveLower(wide, high01, high23)), d, to + 2 * stride);
  hn::StoreU(hn::BitCast(d, hn::InterleaveUpper(wide, high01, high23)), d, to + 3 * stride);
}

HWY_INLINE float sum(F32 d, V32 v) { return hn::GetLane(hn::SumOfLanes(d, v)); }

}  // namespace hearth::ops::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();
#endif
