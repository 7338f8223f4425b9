#include "ops/random_normal.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "ops/random_normal.cpp"
#include <hwy/foreach_target.h>
//
#include <hwy/contrib/math/math-inl.h>

#include <cmath>
#include <numbers>

#include "ops/simd-inl.h"

HWY_BEFORE_NAMESPACE();
namespace hearth::ops::HWY_NAMESPACE {

using F64 = hn::ScalableTag<double>;
using U64 = hn::RebindToUnsigned<F64>;
using V64 = hn::Vec<F64>;
using VU64 = hn::Vec<U64>;

// The two random words of block (index, 0), one index a lane. A word of 32 bits is the lower half of a lane; what its
// upper half holds does not matter before the end.
HWY_INLINE void philox_lanes(U64 d, RandomKey key, VU64 index, VU64& first, VU64& second) {
  const hn::Repartition<uint32_t, U64> d32;
  const auto product = [&](VU64 a, VU64 b) HWY_ATTR {  // of the lower halves, whole
    return hn::MulEven(hn::BitCast(d32, a), hn::BitCast(d32, b));
  };
  // Multipliers and Weyl constants as in base/random.cpp.
  const VU64 multiplier0 = hn::Set(d, uint64_t{0xD2511F53}), multiplier1 = hn::Set(d, uint64_t{0xCD9E8D57});
  VU64 c0 = index, c1 = hn::ShiftRight<32>(index), c2 = hn::Zero(d), c3 = hn::Zero(d);
  uint32_t k0 = key.word[0], k1 = key.word[1];
  for (int round = 0; round < 10; ++round) {
    const VU64 product0 = product(multiplier0, c0), product1 = product(multiplier1, c2);
    c0 = hn::Xor(hn::Xor(hn::ShiftRight<32>(product1), c1), hn::Set(d, uint64_t{k0}));
    c2 = hn::Xor(hn::Xor(hn::ShiftRight<32>(product0), c3), hn::Set(d, uint64_t{k1}));
    c1 = product1;
    c3 = product0;
    k0 += 0x9E3779B9;
    k1 += 0xBB67AE85;
  }
  const VU64 low = hn::Set(d, uint64_t{0xFFFFFFFF});
  first = hn::Or(hn::And(c0, low), hn::ShiftLeft<32>(c1));
  second = hn::Or(hn::And(c2, low), hn::ShiftLeft<32>(c3));
}

// The upper 53 bits as a number.
HWY_INLINE V64 to_double(F64 d, VU64 bits) {
  return hn::ConvertTo(d, hn::BitCast(hn::RebindToSigned<F64>(), hn::ShiftRight<11>(bits)));
}

// random_normal's formula and, without the cosine, the bound of its values.
HWY_INLINE V64 normal_lanes(F64 d, RandomKey key, VU64 index, V64& radius) {
  VU64 first, second;
  philox_lanes(U64(), key, index, first, second);
  const V64 unit = hn::Set(d, 0x1p-53);
  const V64 radius_uniform = hn::Mul(hn::Add(to_double(d, first), hn::Set(d, 1.0)), unit);
  const V64 angle_uniform = hn::Mul(to_double(d, second), unit);
  radius = hn::Sqrt(hn::Mul(hn::Set(d, -2.0), hn::Log(d, radius_uniform)));
  return hn::Mul(radius, hn::Cos(d, hn::Mul(hn::Set(d, 2 * std::numbers::pi), angle_uniform)));
}

// Values 0, 1, ... of `out` as long as whole vectors fit; returns how many.
int64_t fill_normal_lanes(float* out, int64_t n, RandomKey key, uint64_t first, double std, double bound) {
  // Hwy's documentation: the logarithm errs by 4 units of the last place, the cosine by 3. This is 90 of them.
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
