// What the vector kernels share: loops over lanes with a safe tail. Included once per instruction set by Highway's
// foreach_target, inside HWY_BEFORE_NAMESPACE's effect, hence no ordinary guard.
//
// The tail goes through a small buffer: masked loads read past the end below AVX-512.
#if defined(HEARTH_OPS_SIMD_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef HEARTH_OPS_SIMD_INL_H_
#undef HEARTH_OPS_SIMD_INL_H_
#else
#define HEARTH_OPS_SIMD_INL_H_
#endif

#include <hwy/highway.h>

#include <cstdint>
#include <cstring>

HWY_BEFORE_NAMESPACE();
namespace hearth::ops::HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

using F32 = hn::ScalableTag<float>;
using V32 = hn::Vec<F32>;

// `count` floats from p; lanes behind them are `fill`.
HWY_INLINE V32 load(F32 d, const float* p, int64_t count, float fill = 0) {
  const auto lanes = static_cast<int64_t>(hn::Lanes(d));
  if (count == lanes) return hn::LoadU(d, p);
  HWY_ALIGN float buffer[hn::MaxLanes(F32())];
  for (int64_t i = 0; i < lanes; ++i) buffer[i] = i < count ? p[i] : fill;
  return hn::Load(d, buffer);
}

HWY_INLINE void store(V32 v, F32 d, float* p, int64_t count) {
  if (count == static_cast<int64_t>(hn::Lanes(d))) {
    hn::StoreU(v, d, p);
    return;
  }
  HWY_ALIGN float buffer[hn::MaxLanes(F32())];
  hn::Store(v, d, buffer);
  std::memcpy(p, buffer, static_cast<size_t>(count) * sizeof(float));
}

// body(i, count) for i = 0, lanes, 2 lanes, ...; count < lanes only in the last call. Bodies carry HWY_ATTR.
template <class Body>
HWY_INLINE void for_lanes(F32 d, int64_t n, const Body& body) {
  const auto lanes = static_cast<int64_t>(hn::Lanes(d));
  int64_t i = 0;
  for (; i + lanes <= n; i += lanes) body(i, lanes);
  if (i < n) body(i, n - i);
}

HWY_INLINE float sum(F32 d, V32 v) { return hn::GetLane(hn::SumOfLanes(d, v)); }

}  // namespace hearth::ops::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();
#endif
