// SPDX-License-Identifier: Apache-2.0
// Philox4x32-10 (base/random.h) by vector, one block a lane. Included once per instruction set, as ops/cpu/simd-inl.h
// is.
#if defined(HEARTH_OPS_PHILOX_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef HEARTH_OPS_PHILOX_INL_H_
#undef HEARTH_OPS_PHILOX_INL_H_
#else
#define HEARTH_OPS_PHILOX_INL_H_
#endif

#include <hwy/highway.h>

#include <cstdint>

#include "base/random.h"

HWY_BEFORE_NAMESPACE();
namespace hearth::ops::HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

using U64 = hn::ScalableTag<uint64_t>;
using VU64 = hn::Vec<U64>;

// The 16 bytes of block (index, 0), one index a lane: words 0 and 1 in `first`, 2 and 3 in `second`, the earlier word
// in the lower half.
HWY_INLINE void philox_lanes(U64 d, RandomKey key, VU64 index, VU64& first, VU64& second) {
  const hn::Repartition<uint32_t, U64> d32;
  const auto product = [&](VU64 a, VU64 b) HWY_ATTR {  // 64-bit products of the lower halves
    return hn::MulEven(hn::BitCast(d32, a), hn::BitCast(d32, b));
  };
  // Multipliers and Weyl constants as in base/random.cpp. A word of 32 bits is the lower half of a lane; the upper half
  // is cleared only at the end.
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

}  // namespace hearth::ops::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();
#endif
