// SPDX-License-Identifier: Apache-2.0
#include "ops/random_normal.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "ops/random_normal.cpp"
#include <hwy/foreach_target.h>
//
#include <hwy/contrib/math/math-inl.h>

#include <cmath>
#include <numbers>

#include "ops/cpu/philox-inl.h"
#include "ops/cpu/simd-inl.h"

HWY_BEFORE_NAMESPACE();
namespace hearth::ops::HWY_NAMESPACE {

using F64 = hn::ScalableTag<double>;
using V64 = hn::Vec<F64>;

// The upper 53 bits as a number.
HWY_INLINE V64 to_double(F64 d, VU64 bits) {
  return hn::ConvertTo(d, hn::BitCast(hn::RebindToSigned<F64>(), hn::ShiftRight<11>(bits)));
}

// random_normal's formula. `radius` is the value without the cosine, which bounds it.
HWY_INLINE V64 normal_lanes(F64 d, RandomKey key, VU64 index, V64& radius) {
  VU64 first, second;
  philox_lanes(U64(), key, index, first, second);
  const V64 unit = hn::Set(d, 0x1p-53);
  const V64 radius_uniform = hn::Mul(hn::Add(to_double(d, first), hn::Set(d, 1.0)), unit);
  const V64 angle_uniform = hn::Mul(to_double(d, second), unit);
  radius = hn::Sqrt(hn::Mul(hn::Set(d, -2.0), hn::Log(d, radius_uniform)));
  return hn::Mul(radius, hn::Cos(d, hn::Mul(hn::Set(d, 2 * std::numbers::pi), angle_uniform)));
}

// Fills values 0, 1, ... of `out` with whole vectors; returns how many.
int64_t fill_normal_lanes(float* out, int64_t n, RandomKey key, uint64_t first, double std, double bound) {
  // Highway's documentation: the logarithm errs by 4 units in the last place, the cosine by 3. This is 90 units.
  constexpr double kError = 2e-14;
  const F64 d;
  const hn::Rebind<float, F64> d32;
  const auto lanes = static_cast<int64_t>(hn::Lanes(d));
  const V64 v_std = hn::Set(d, std), v_error = hn::Set(d, kError * std::abs(std)), v_bound = hn::Set(d, bound);
  int64_t i = 0;
  for (; i + lanes <= n; i += lanes) {
    const uint64_t at = first + static_cast<uint64_t>(i);
    V64 radius;
    const V64 value = hn::Mul(v_std, normal_lanes(d, key, hn::Iota(U64(), at), radius));
    const V64 error = hn::Mul(v_error, radius);
    const auto below = hn::DemoteTo(d32, hn::Sub(value, error)), above = hn::DemoteTo(d32, hn::Add(value, error));
    hn::StoreU(below, d32, out + i);
    const bool certain =
        hn::AllTrue(d32, hn::Eq(below, above)) && hn::AllTrue(d, hn::Le(hn::Add(hn::Abs(value), error), v_bound));
    if (HWY_LIKELY(certain)) continue;
    // libm's value, so that no initial weight depends on the instruction set: the vectors' logarithm and cosine differ
    // from libm's in the last place. Among 2^31 draws with std 0.02 no float would have differed without this.
    for (int64_t j = i; j < i + lanes; ++j)
      out[j] = static_cast<float>(random_truncated_normal(key, first + static_cast<uint64_t>(j), std, bound));
  }
  return i;
}

}  // namespace hearth::ops::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace hearth::ops {

HWY_EXPORT(fill_normal_lanes);

void fill_normal(float* out, int64_t n, RandomKey key, uint64_t first, double std, double bound) {
  for (int64_t i = HWY_DYNAMIC_DISPATCH(fill_normal_lanes)(out, n, key, first, std, bound); i < n; ++i)
    out[i] = static_cast<float>(random_truncated_normal(key, first + static_cast<uint64_t>(i), std, bound));
}

}  // namespace hearth::ops
#endif
