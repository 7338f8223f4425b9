// SPDX-License-Identifier: Apache-2.0
// bfloat16 and float8 e4m3fn as bits. Without a vendor's header: CUDA's and HIP's differ, and the host has neither.
// Arithmetic is in float32.
#pragma once

#include "kernels/platform.h"

namespace hearth::kernels {

// The upper half of a float32.
struct BFloat16 {
  uint16_t bits;
};

__device__ inline float to_float(float x) { return x; }
__device__ inline float to_float(BFloat16 x) { return __uint_as_float(static_cast<uint32_t>(x.bits) << 16); }

__device__ inline bool is_nan(float x) { return (__float_as_uint(x) & 0x7FFFFFFFu) > 0x7F800000u; }
__device__ inline bool is_finite(float x) { return (__float_as_uint(x) & 0x7F800000u) != 0x7F800000u; }

// To nearest, ties to even; NaN becomes 0x7FC0, as c10::BFloat16 has it.
template <class T>
__device__ T rounded(float x);
template <>
__device__ inline float rounded<float>(float x) {
  return x;
}
template <>
__device__ inline BFloat16 rounded<BFloat16>(float x) {
  const uint32_t bits = __float_as_uint(x);
  const uint32_t nearest = (bits + 0x7FFFu + (bits >> 16 & 1u)) >> 16;
  return {static_cast<uint16_t>(is_nan(x) ? 0x7FC0u : nearest)};
}

// float8 e4m3fn: sign, 4 bits of exponent (bias 7), 3 of mantissa. The largest is 448, S.1111.111 is NaN, and there is
// no infinity. To nearest, ties to even; larger values become 448. Source: OCP 8-bit Floating Point, 2023.
inline constexpr float kFloat8Largest = 448;

__device__ inline uint8_t to_float8(float x) {
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 890
  uint16_t pair;
  asm("cvt.rn.satfinite.e4m3x2.f32 %0, %1, %2;" : "=h"(pair) : "f"(0.0f), "f"(x));
  return static_cast<uint8_t>(pair);
#else
  const uint32_t bits = __float_as_uint(x), sign = bits >> 24 & 0x80u, size = bits & 0x7FFFFFFFu;
  if (size > 0x7F800000u) return static_cast<uint8_t>(sign | 0x7Fu);
  if (size < 0x3C800000u) {
    // Below 2^-6 the spacing is 2^-9, as of a float32 at 2^14: the sum's lowest bits are the number of spacings.
    const uint32_t steps = __float_as_uint(__uint_as_float(size) + 16384.0f) - 0x46800000u;
    return static_cast<uint8_t>(sign | steps);
  }
  // Drops twenty bits of the mantissa. The exponents' biases differ by 120, in units of the last kept place.
  const uint32_t nearest = ((size + 0x7FFFFu + (size >> 20 & 1u)) >> 20) - (120u << 3);
  return static_cast<uint8_t>(sign | (nearest < 0x7Eu ? nearest : 0x7Eu));
#endif
}

// W neighbours of a row. 16 bytes are loaded and stored as one access, multiples of 16 as several.
template <class T, int W>
struct alignas(W * sizeof(T) < 16 ? W * sizeof(T) : 16) Pack {
  T values[W];

  __device__ float operator[](int k) const { return to_float(values[k]); }
  __device__ void set(int k, float x) { values[k] = rounded<T>(x); }
};

template <int W, class T>
__device__ inline Pack<T, W> load(const T* from) {
  return *reinterpret_cast<const Pack<T, W>*>(from);
}
template <int W, class T>
__device__ inline void store(T* to, const Pack<T, W>& pack) {
#if defined(__CUDA_ARCH__)
  // nvcc splits a store whose elements it has moved into a branch; explicit stores of 16 bytes prevent it.
  if constexpr (sizeof pack % 16 == 0) {
    uint4 words[sizeof pack / 16];
    memcpy(words, &pack, sizeof pack);
#pragma unroll
    for (size_t i = 0; i < sizeof pack / 16; ++i) __stwb(reinterpret_cast<uint4*>(to) + i, words[i]);
    return;
  }
#endif
  *reinterpret_cast<Pack<T, W>*>(to) = pack;
}

}  // namespace hearth::kernels
