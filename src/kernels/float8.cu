// SPDX-License-Identifier: Apache-2.0
#include "kernels/block.h"
#include "kernels/entries.h"
#include "kernels/launch.h"

namespace hearth::kernels {
namespace {

constexpr float kSmallestScale = 1e-12f;

// Sizes are compared as bits: the same order, with NaN above all, so that NaN propagates.
__device__ inline uint32_t size_bits(float x) { return __float_as_uint(x) & 0x7FFFFFFFu; }

__device__ inline float scale_of(uint32_t largest_bits) {
  const float scale = __uint_as_float(largest_bits) / kFloat8Largest;
  return scale < kSmallestScale ? kSmallestScale : scale;
}

template <int W>
struct alignas(W) Bytes {
  uint8_t values[W];
};

template <class T, int W>
__global__ void __launch_bounds__(512) float8_rows_kernel(uint8_t* out_RC, float* scale_R, ConstRows x) {
  const int64_t r = blockIdx.x, C = x.cols, step = static_cast<int64_t>(blockDim.x) * W;
  const T* row = static_cast<const T*>(x.data) + r * x.stride;
  uint32_t largest = 0;
  for (int64_t c = static_cast<int64_t>(threadIdx.x) * W; c < C; c += step) {
    const Pack<T, W> pack = load<W>(row + c);
#pragma unroll
    for (int k = 0; k < W; ++k) largest = largest < size_bits(pack[k]) ? size_bits(pack[k]) : largest;
  }
  const float scale = scale_of(block_max(largest)), inverse = 1 / scale;
  if (threadIdx.x == 0) scale_R[r] = scale;
  for (int64_t c = static_cast<int64_t>(threadIdx.x) * W; c < C; c += step) {
    const Pack<T, W> pack = load<W>(row + c);
    Bytes<W> bytes;
#pragma unroll
    for (int k = 0; k < W; ++k) bytes.values[k] = to_float8(pack[k] * inverse);
    *reinterpret_cast<Bytes<W>*>(out_RC + r * C + c) = bytes;
  }
}

// A block's tile of [kTile, kTile]; its threads are in rows of kTile.
constexpr int kTile = 64, kTileThreads = 256, kTileRows = kTileThreads / kTile;
constexpr int kRowsOfMax = 512;  // rows that a block of the maximum goes through

__global__ void __launch_bounds__(kTileThreads) zero_kernel(uint32_t* largest_C, int64_t C) {
  const int64_t c = static_cast<int64_t>(blockIdx.x) * kTileThreads + threadIdx.x;
  if (c < C) largest_C[c] = 0;
}

// The maximum of some rows of kTile columns. Integer maxima are the same in any order.
template <class T>
__global__ void __launch_bounds__(kTileThreads) columns_max_kernel(uint32_t* largest_C, ConstRows x, int32_t tiles) {
  const int64_t c = static_cast<int64_t>(blockIdx.x % tiles) * kTile + threadIdx.x % kTile;
  if (c >= x.cols) return;
  const int64_t begin = static_cast<int64_t>(blockIdx.x / tiles) * kRowsOfMax;
  const int64_t end = begin + kRowsOfMax < x.rows ? begin + kRowsOfMax : x.rows;
  const T* column = static_cast<const T*>(x.data) + c;
  uint32_t largest = 0;
#pragma unroll 8
  for (int64_t r = begin + threadIdx.x / kTile; r < end; r += kTileRows) {
    const uint32_t bits = size_bits(to_float(column[r * x.stride]));
    largest = largest < bits ? bits : largest;
  }
  atomicMax(largest_C + c, largest);
}

// Replaces maxima by scales.
__global__ void __launch_bounds__(kTileThreads) scales_kernel(float* scale_C, int64_t C) {
  const int64_t c = static_cast<int64_t>(blockIdx.x) * kTileThreads + threadIdx.x;
  if (c < C) scale_C[c] = scale_of(__float_as_uint(scale_C[c]));
}

template <class T>
__global__ void __launch_bounds__(kTileThreads)
    transpose_kernel(uint8_t* out_CR, const float* scale_C, ConstRows x, int32_t tiles) {
  __shared__ uint8_t tile[kTile][kTile + 4];  // rows padded by one bank: columns are read without conflicts
  const int64_t c0 = static_cast<int64_t>(blockIdx.x % tiles) * kTile,
                r0 = static_cast<int64_t>(blockIdx.x / tiles) * kTile;
  const int across = static_cast<int>(threadIdx.x) % kTile, down = static_cast<int>(threadIdx.x) / kTile;
  if (c0 + across < x.cols) {
    const float inverse = 1 / scale_C[c0 + across];
    const T* column = static_cast<const T*>(x.data) + c0 + across;
#pragma unroll 4
    for (int i = down; i < kTile; i += kTileRows) {
      if (r0 + i < x.rows) tile[i][across] = to_float8(to_float(column[(r0 + i) * x.stride]) * inverse);
    }
  }
  __syncthreads();
  if (r0 + across >= x.rows) return;
  for (int i = down; i < kTile; i += kTileRows) {
    if (c0 + i < x.cols) out_CR[(c0 + i) * x.rows + r0 + across] = tile[across][i];
  }
}

}  // namespace

int float8_rows(void* stream, Type type, uint8_t* out_RC, float* scale_R, ConstRows x_RC) {
  return with_type(type, [&](auto zero) {
    using T = decltype(zero);
    const bool aligned = x_RC.cols % kWidth<T> == 0 && is_aligned<T>(x_RC) && is_aligned(out_RC);
    return with_width<T>(aligned, [&](auto W) {
      const int threads = threads_for(ceil_div(x_RC.cols, W()), 512);
      return launch(stream, &float8_rows_kernel<T, W()>, x_RC.rows, threads, out_RC, scale_R, x_RC);
    });
  });
}

int float8_columns(void* stream, Type type, uint8_t* out_CR, float* scale_C, ConstRows x_RC) {
  const int64_t R = x_RC.rows, C = x_RC.cols;
  const int64_t tiles = ceil_div(C, kTile), lines = ceil_div(C, kTileThreads);
  const auto across = static_cast<int32_t>(tiles);
  return with_type(type, [&](auto zero) {
    using T = decltype(zero);
    // The maxima are stored in the scales' place.
    auto* largest_C = reinterpret_cast<uint32_t*>(scale_C);
    return in_turn(
        launch(stream, &zero_kernel, lines, kTileThreads, largest_C, C),
        [&] {
          const int64_t blocks = tiles * ceil_div(R, kRowsOfMax);
          return launch(stream, &columns_max_kernel<T>, blocks, kTileThreads, largest_C, x_RC, across);
        },
        [&] { return launch(stream, &scales_kernel, lines, kTileThreads, scale_C, C); },
        [&] {
          const int64_t blocks = tiles * ceil_div(R, kTile);
          return launch(stream, &transpose_kernel<T>, blocks, kTileThreads, out_CR, scale_C, x_RC, across);
        });
  });
}

}  // namespace hearth::kernels
