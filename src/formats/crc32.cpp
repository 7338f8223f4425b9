// SPDX-License-Identifier: Apache-2.0
#include "formats/crc32.h"

#include <zlib.h>

#if defined(__x86_64__)
#include <immintrin.h>
#endif

namespace hearth::formats {
namespace {

uint32_t zlib_crc(uint32_t before, std::span<const std::byte> data) {
  return static_cast<uint32_t>(::crc32_z(before, reinterpret_cast<const Bytef*>(data.data()), data.size()));
}

#if defined(__x86_64__)
constexpr size_t kLane = 16, kStride = 4 * kLane;

// Moves 128 bits of the message forward by a distance that `factors` stands for, and adds them to the bits there.
__attribute__((target("pclmul,sse4.1"))) __m128i folded(__m128i value, __m128i factors, __m128i there) {
  const __m128i low = _mm_clmulepi64_si128(value, factors, 0x00), high = _mm_clmulepi64_si128(value, factors, 0x11);
  return _mm_xor_si128(_mm_xor_si128(low, high), there);
}

// Source: Gopal et al., "Fast CRC Computation for Generic Polynomials Using PCLMULQDQ", Intel 2009, with its factors
// for this polynomial. Four lanes of 16 bytes are folded over the data and then into one. The CRC-32 of that lane,
// from an empty register on, is the register after all of them. `data` has a multiple of 64 bytes, and at least 128.
__attribute__((target("pclmul,sse4.1"))) uint32_t folding_crc(uint32_t before, std::span<const std::byte> data) {
  const __m128i over_stride = _mm_set_epi64x(0x1c6e41596, 0x154442bd4);
  const __m128i over_lane = _mm_set_epi64x(0x0ccaa009e, 0x1751997d0);
  const auto load = [&data](size_t at) __attribute__((target("pclmul,sse4.1"))) {
    return _mm_loadu_si128(reinterpret_cast<const __m128i*>(data.data() + at));
  };
  __m128i lane_0 = load(0), lane_1 = load(kLane), lane_2 = load(2 * kLane), lane_3 = load(3 * kLane);
  lane_0 = _mm_xor_si128(lane_0, _mm_cvtsi32_si128(static_cast<int>(~before)));
  for (size_t at = kStride; at < data.size(); at += kStride) {
    lane_0 = folded(lane_0, over_stride, load(at));
    lane_1 = folded(lane_1, over_stride, load(at + kLane));
    lane_2 = folded(lane_2, over_stride, load(at + 2 * kLane));
    lane_3 = folded(lane_3, over_stride, load(at + 3 * kLane));
  }
  lane_1 = folded(lane_0, over_lane, lane_1);
  lane_2 = folded(lane_1, over_lane, lane_2);
  lane_3 = folded(lane_2, over_lane, lane_3);
  std::byte last[kLane];
  _mm_storeu_si128(reinterpret_cast<__m128i*>(last), lane_3);
  return zlib_crc(0xffffffff, last);  // zlib inverts its register: this one is empty
}
#endif

}  // namespace

uint32_t crc32(uint32_t before, std::span<const std::byte> data) {
#if defined(__x86_64__)
  static const bool can_fold = __builtin_cpu_supports("pclmul") != 0 && __builtin_cpu_supports("sse4.1") != 0;
  if (can_fold && data.size() >= 2 * kStride) {
    const size_t size = data.size() / kStride * kStride;
    return zlib_crc(folding_crc(before, data.first(size)), data.subspan(size));
  }
#endif
  return zlib_crc(before, data);
}

uint32_t join_crc32(uint32_t first, uint32_t second, int64_t bytes) {
  return static_cast<uint32_t>(::crc32_combine(first, second, static_cast<z_off_t>(bytes)));
}

}  // namespace hearth::formats
