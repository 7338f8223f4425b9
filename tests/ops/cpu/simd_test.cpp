// SPDX-License-Identifier: Apache-2.0
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "ops/cpu/simd_test.cpp"
#include <hwy/foreach_target.h>
//
#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>
#include <fstream>
#include <limits>
#include <string>
#include <vector>

#include "ops/cpu/bf16_dot.h"
#include "ops/cpu/simd-inl.h"

HWY_BEFORE_NAMESPACE();
namespace hearth::ops::HWY_NAMESPACE {

void widen(float* to, const c10::BFloat16* from, int64_t n) {
  const F32 d;
  for_lanes(d, n, [&](int64_t i, int64_t count) HWY_ATTR { store(load(d, from + i, count), d, to + i, count); });
}

void narrow(c10::BFloat16* to, const float* from, int64_t n) {
  const F32 d;
  for_lanes(d, n, [&](int64_t i, int64_t count) HWY_ATTR { store(load(d, from + i, count), d, to + i, count); });
}

// All lanes of one load of `count` elements at the end of the memory. Returns the number of lanes.
int64_t lanes_of(float* lanes, const c10::BFloat16* from, int64_t count, float fill) {
  const F32 d;
  hn::StoreU(load(d, from, std::min<int64_t>(count, static_cast<int64_t>(hn::Lanes(d))), fill), d, lanes);
  return static_cast<int64_t>(hn::Lanes(d));
}

// sums[i] += the products of the i-th pairs of a and b. Returns false without such an instruction.
bool add_products_of_pairs([[maybe_unused]] float* sums, [[maybe_unused]] const c10::BFloat16* a,
                           [[maybe_unused]] const c10::BFloat16* b, [[maybe_unused]] int64_t n) {
#if HEARTH_HAS_PAIRS
  if (!has_bf16_dot()) return false;
  const F32 d;
  const auto pairs = [&](const c10::BFloat16* x) HWY_ATTR { return hn::LoadU(d, reinterpret_cast<const float*>(x)); };
  for (int64_t i = 0; i < n; i += static_cast<int64_t>(hn::Lanes(d)))
    hn::StoreU(dot_pairs(hn::LoadU(d, sums + i), pairs(a + 2 * i), pairs(b + 2 * i)), d, sums + i);
  return true;
#else
  return false;
#endif
}

// to [4 lanes]: neighbours of first and second, then their equal lanes, as pairs. Returns false as above.
bool pair([[maybe_unused]] c10::BFloat16* to, [[maybe_unused]] const float* first,
          [[maybe_unused]] const float* second) {
#if HEARTH_HAS_PAIRS
  if (!has_bf16_dot()) return false;
  const F32 d;
  const V32 a = hn::LoadU(d, first), b = hn::LoadU(d, second);
  const size_t bytes = hn::Lanes(d) * sizeof(float);
  const V32 neighbours = pair_neighbours(a, b), lanes = pair_lanes(a, b);
  std::memcpy(to, &neighbours, bytes);
  std::memcpy(to + 2 * hn::Lanes(d), &lanes, bytes);
  return true;
#else
  return false;
#endif
}

}  // namespace hearth::ops::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
#include "ops/targets.h"

namespace hearth::ops {

HWY_EXPORT(widen);
HWY_EXPORT(narrow);
HWY_EXPORT(lanes_of);
HWY_EXPORT(add_products_of_pairs);
HWY_EXPORT(pair);

namespace {

std::vector<c10::BFloat16> every_bfloat16() {
  std::vector<c10::BFloat16> all;
  for (uint32_t bits = 0; bits < 0x10000; ++bits)
    all.push_back(c10::BFloat16(static_cast<uint16_t>(bits), c10::BFloat16::from_bits()));
  return all;
}

TEST(Simd, EveryBfloat16IsLoadedAsItsValue) {
  const std::vector<c10::BFloat16> from = every_bfloat16();
  test::with_each_target([&] {
    std::vector<float> to(from.size());
    HWY_DYNAMIC_DISPATCH(widen)(to.data(), from.data(), static_cast<int64_t>(from.size()));
    for (size_t i = 0; i < from.size(); ++i)
      ASSERT_EQ(std::bit_cast<uint32_t>(to[i]), static_cast<uint32_t>(from[i].x) << 16) << i;
  });
}

TEST(Simd, StoresRoundAsC10DoesBelowAtAndAboveTheHalf) {
  std::vector<float> from;
  for (uint32_t high = 0; high < 0x10000; ++high)
    for (const uint32_t low : {0u, 1u, 0x7FFFu, 0x8000u, 0x8001u, 0xFFFFu})
      from.push_back(std::bit_cast<float>(high << 16 | low));
  test::with_each_target([&] {
    std::vector<c10::BFloat16> to(from.size());
    HWY_DYNAMIC_DISPATCH(narrow)(to.data(), from.data(), static_cast<int64_t>(from.size()));
    for (size_t i = 0; i < from.size(); ++i)
      ASSERT_EQ(to[i].x, c10::BFloat16(from[i]).x) << std::hex << std::bit_cast<uint32_t>(from[i]);
  });
}

// Whole numbers of eight bits: every sum is exact.
TEST(Simd, ProductsOfPairsAreAddedInFloat32) {
  bool some = false;
  test::with_each_target([&] {
    const int64_t n = 64;
    std::vector<c10::BFloat16> a, b;
    std::vector<float> sums, expected;
    for (int i = 0; i < n; ++i) {
      const int x = i * 37 % 255 - 127, y = i * 59 % 255 - 127, u = i * 83 % 255 - 127, w = i * 101 % 255 - 127;
      for (const int value : {x, y}) a.push_back(static_cast<float>(value));
      for (const int value : {u, w}) b.push_back(static_cast<float>(value));
      sums.push_back(static_cast<float>(3 * i));
      expected.push_back(static_cast<float>(3 * i + x * u + y * w));
    }
    if (!HWY_DYNAMIC_DISPATCH(add_products_of_pairs)(sums.data(), a.data(), b.data(), n)) return;
    some = true;
    EXPECT_EQ(sums, expected);
  });
  std::ifstream cpuinfo("/proc/cpuinfo");
  const std::string text{std::istreambuf_iterator<char>(cpuinfo), {}};
  EXPECT_EQ(some, text.find(" avx512_bf16") != std::string::npos);
}

TEST(Simd, PairsAreRoundedAsC10DoesAndStandInOrder) {
  test::with_each_target([] {
    const float nan = std::bit_cast<float>(0x7FFFFFFFu), infinity = std::numeric_limits<float>::infinity();
    const float special[] = {0, -0.0f, infinity, -infinity, 1, 0x1.01p0f, 0x1.03p0f, 0x1.010002p0f, 3.4e38f};
    float in[32];
    for (int i = 0; i < 32; ++i) in[i] = i < 9 ? special[i] : i == 20 ? nan : std::sin(static_cast<float>(i)) * 3;
    c10::BFloat16 out[64];
    if (!HWY_DYNAMIC_DISPATCH(pair)(out, in, in + 16)) return;
    for (int i = 0; i < 32; ++i) {
      for (const int at : {i, 32 + 2 * (i % 16) + i / 16}) {
        if (std::isnan(in[i])) {
          EXPECT_TRUE(std::isnan(static_cast<float>(out[at])));
        } else {
          EXPECT_EQ(out[at].x, c10::BFloat16(in[i]).x) << i;
        }
      }
    }
  });
}

TEST(Simd, TailsOfBfloat16AreFilledAndNothingBehindThemIsWritten) {
  constexpr int64_t kMost = 40;
  const std::vector<c10::BFloat16> every = every_bfloat16();
  test::with_each_target([&] {
    for (int64_t n = 0; n <= kMost; ++n) {
      const std::vector<c10::BFloat16> from(every.begin() + 0x3F80, every.begin() + 0x3F80 + n);  // from 1 upward
      std::vector<float> lanes(256);
      const int64_t num_lanes = HWY_DYNAMIC_DISPATCH(lanes_of)(lanes.data(), from.data(), n, -3.0f);
      for (int64_t i = 0; i < num_lanes; ++i)
        ASSERT_EQ(lanes[static_cast<size_t>(i)], i < n ? static_cast<float>(from[static_cast<size_t>(i)]) : -3.0f);

      const std::vector<float> wide(from.begin(), from.end());
      std::vector<c10::BFloat16> to(static_cast<size_t>(n + 8), c10::BFloat16(-7.0f));
      HWY_DYNAMIC_DISPATCH(narrow)(to.data(), wide.data(), n);
      for (int64_t i = 0; i < n + 8; ++i) {
        const auto at = static_cast<size_t>(i);
        ASSERT_EQ(static_cast<float>(to[at]), i < n ? static_cast<float>(from[at]) : -7.0f) << i << " of " << n;
      }
    }
  });
}

}  // namespace
}  // namespace hearth::ops
#endif
