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

// Columns, with rows or without: all maxima first, then tiles of kTile rows and columns. A thread has neighbouring
// columns, so that kAcross threads read a piece of a row; four rows of four columns are four words of the result.
constexpr int kTile = 128, kTileThreads = 256, kAcross = 32, kDown = kTileThreads / kAcross, kFour = 4;
constexpr int kRowsOfMax = 256;  // rows that a block of the maxima goes through

// Largest sizes as bits, or scales, of the rows (null: columns only) and columns.
template <class Value>
struct RowsAndColumns {
  Value *of_rows, *of_columns;
};
using Maxima = RowsAndColumns<uint32_t>;
using Scales = RowsAndColumns<float>;

__device__ inline uint32_t larger(uint32_t a, uint32_t b) { return a < b ? b : a; }

__global__ void __launch_bounds__(kTileThreads) zero_kernel(Maxima largest, int64_t R, int64_t C) {
  const int64_t i = static_cast<int64_t>(blockIdx.x) * kTileThreads + threadIdx.x;
  if (i < C) largest.of_columns[i] = 0;
  if (i < R && largest.of_rows != nullptr) largest.of_rows[i] = 0;
}

// Replaces maxima by scales.
__global__ void __launch_bounds__(kTileThreads) scales_kernel(Scales scales, int64_t R, int64_t C) {
  const int64_t i = static_cast<int64_t>(blockIdx.x) * kTileThreads + threadIdx.x;
  if (i < C) scales.of_columns[i] = scale_of(__float_as_uint(scales.of_columns[i]));
  if (i < R && scales.of_rows != nullptr) scales.of_rows[i] = scale_of(__float_as_uint(scales.of_rows[i]));
}

// W columns from c on. Without kWhole: zeros behind the row's end, and no packs, since they may not be aligned.
template <bool kWhole, int W, class T>
__device__ Pack<T, W> load_columns(const ConstRows& x, int64_t r, int64_t c) {
  const T* row = static_cast<const T*>(x.data) + r * x.stride;
  if constexpr (kWhole) {
    return load<W>(row + c);
  } else {
    Pack<T, W> pack;
    for (int k = 0; k < W; ++k) pack.values[k] = c + k < x.cols ? row[c + k] : rounded<T>(0);
    return pack;
  }
}

// The maxima of kRowsOfMax rows of W * kAcross columns. Integer maxima are the same in any order.
template <class T, int W, bool kInPacks, bool kRows>
__global__ void __launch_bounds__(kTileThreads) maxima_kernel(Maxima largest, ConstRows x, int32_t tiles) {
  __shared__ uint32_t of_threads[kDown][W * kAcross];
  const int across = static_cast<int>(threadIdx.x) % kAcross, down = static_cast<int>(threadIdx.x) / kAcross;
  const int64_t first = static_cast<int64_t>(blockIdx.x % tiles) * W * kAcross, c = first + across * W;
  const int64_t begin = static_cast<int64_t>(blockIdx.x / tiles) * kRowsOfMax;
  const int64_t end = begin + kRowsOfMax < x.rows ? begin + kRowsOfMax : x.rows;
  uint32_t of_columns[W] = {};
  constexpr int kAtOnce = 8;  // loads under way
  for (int64_t first_row = begin; first_row < end; first_row += kAtOnce * kDown) {
    // All threads as often, also behind the last row: they exchange values.
#pragma unroll
    for (int i = 0; i < kAtOnce; ++i) {
      const int64_t r = first_row + i * kDown + down;
      Pack<T, W> pack = {};
      if (r < end && c < x.cols) pack = load_columns<kInPacks, W, T>(x, r, c);
      uint32_t of_row = 0;
#pragma unroll
      for (int k = 0; k < W; ++k) {
        const uint32_t bits = size_bits(pack[k]);
        of_columns[k] = larger(of_columns[k], bits);
        of_row = larger(of_row, bits);
      }
      if constexpr (kRows) {
        for (int distance = kAcross / 2; distance > 0; distance /= 2)
          of_row = larger(of_row, shuffle_xor(of_row, distance));
        if (across == 0 && r < end) atomicMax(largest.of_rows + r, of_row);
      }
    }
  }
#pragma unroll
  for (int k = 0; k < W; ++k) of_threads[down][k * kAcross + across] = of_columns[k];
  __syncthreads();
  for (int i = static_cast<int>(threadIdx.x); i < W * kAcross; i += kTileThreads) {
    uint32_t value = 0;
    for (int d = 0; d < kDown; ++d) value = larger(value, of_threads[d][i]);
    const int64_t column = first + i % kAcross * W + i / kAcross;
    if (column < x.cols) atomicMax(largest.of_columns + column, value);
  }
}

struct Tiles {
  uint8_t *rows_RC, *columns_CR;
  Scales scales;
  ConstRows x;
  int32_t across;           // tiles in a row of them
  bool in_packs, in_words;  // x is aligned for packs; a word of the columns is, too
};

// Four rows of four columns as bytes: a word for each column, and one for each row. Without kWhole: zeros behind the
// last row.
template <bool kWhole, bool kRows, class T>
__device__ void four_by_four(uint32_t* words, const Tiles& a, int64_t r, int64_t c, const float* inverse) {
  Pack<T, kFour> rows[kFour] = {};
#pragma unroll
  for (int i = 0; i < kFour; ++i)
    if (kWhole || r + i < a.x.rows) rows[i] = load_columns<kWhole, kFour, T>(a.x, r + i, c);
#pragma unroll
  for (int k = 0; k < kFour; ++k) {
    words[k] = 0;
    for (int i = 0; i < kFour; ++i) words[k] |= static_cast<uint32_t>(to_float8(rows[i][k] * inverse[k])) << (8 * i);
  }
  if constexpr (kRows) {
#pragma unroll
    for (int i = 0; i < kFour; ++i) {
      if (!kWhole && r + i >= a.x.rows) return;
      const float inverse_row = 1 / a.scales.of_rows[r + i];
      Pack<uint8_t, kFour> bytes;
      for (int k = 0; k < kFour; ++k) bytes.values[k] = to_float8(rows[i][k] * inverse_row);
      uint8_t* to = a.rows_RC + (r + i) * a.x.cols + c;
      if constexpr (kWhole) {
        *reinterpret_cast<Pack<uint8_t, kFour>*>(to) = bytes;
      } else {
        for (int k = 0; k < kFour && c + k < a.x.cols; ++k) to[k] = bytes.values[k];
      }
    }
  }
}

// The tile goes through shared memory as words, of four rows each. Word `four` of a column is at four ^ (column / 4):
// the 32 threads that write it, and the 32 that read a column, each have a bank of their own.
template <class T, bool kRows>
__global__ void __launch_bounds__(kTileThreads, 4) tiles_kernel(Tiles a) {
  constexpr int kWords = kTile / kFour;
  __shared__ uint32_t tile[kTile * kWords];
  const int64_t c0 = static_cast<int64_t>(blockIdx.x % a.across) * kTile,
                r0 = static_cast<int64_t>(blockIdx.x / a.across) * kTile;
  const int across = static_cast<int>(threadIdx.x) % kAcross, down = static_cast<int>(threadIdx.x) / kAcross;
  const int64_t c = c0 + across * kFour;
  if (c < a.x.cols) {
    const bool whole = a.in_packs && r0 + kTile <= a.x.rows;
    float inverse[kFour];
    for (int k = 0; k < kFour; ++k) inverse[k] = c + k < a.x.cols ? 1 / a.scales.of_columns[c + k] : 0;
#pragma unroll
    for (int j = 0; j < kWords / kDown; ++j) {
      const int four = down + j * kDown;
      uint32_t words[kFour];
      whole ? four_by_four<true, kRows, T>(words, a, r0 + four * kFour, c, inverse)
            : four_by_four<false, kRows, T>(words, a, r0 + four * kFour, c, inverse);
#pragma unroll
      for (int k = 0; k < kFour; ++k) tile[(across * kFour + k) * kWords + (four ^ across)] = words[k];
    }
  }
  __syncthreads();
  const int64_t r = r0 + across * kFour;
  for (int i = down; i < kTile && c0 + i < a.x.cols; i += kDown) {
    const uint32_t word = tile[i * kWords + (across ^ (i / kFour))];
    uint8_t* to = a.columns_CR + (c0 + i) * a.x.rows + r;
    if (a.in_words && r < a.x.rows) {
      *reinterpret_cast<uint32_t*>(to) = word;
    } else {
      for (int k = 0; k < kFour && r + k < a.x.rows; ++k) to[k] = static_cast<uint8_t>(word >> (8 * k));
    }
  }
}

template <bool kRows>
int convert(void* stream, Type type, uint8_t* rows_RC, uint8_t* columns_CR, Scales scales, ConstRows x_RC) {
  const int64_t R = x_RC.rows, C = x_RC.cols, lines = ceil_div(kRows && R > C ? R : C, kTileThreads);
  const bool in_words = R % kFour == 0 && reinterpret_cast<uintptr_t>(columns_CR) % kFour == 0;
  return with_type(type, [&](auto zero) {
    using T = decltype(zero);
    const bool in_packs =
        C % kWidth<T> == 0 && is_aligned<T>(x_RC) && (!kRows || reinterpret_cast<uintptr_t>(rows_RC) % kFour == 0);
    // The maxima are stored in the scales' place.
    const Maxima largest = {reinterpret_cast<uint32_t*>(scales.of_rows),
                            reinterpret_cast<uint32_t*>(scales.of_columns)};
    return in_turn(
        launch(stream, &zero_kernel, lines, kTileThreads, largest, R, C),
        [&] {
          const int64_t across = ceil_div(C, kWidth<T> * kAcross), blocks = across * ceil_div(R, kRowsOfMax);
          const auto kernel =
              in_packs ? &maxima_kernel<T, kWidth<T>, true, kRows> : &maxima_kernel<T, kWidth<T>, false, kRows>;
          return launch(stream, kernel, blocks, kTileThreads, largest, x_RC, static_cast<int32_t>(across));
        },
        [&] { return launch(stream, &scales_kernel, lines, kTileThreads, scales, R, C); },
        [&] {
          const auto across = static_cast<int32_t>(ceil_div(C, kTile));
          return launch(stream, &tiles_kernel<T, kRows>, across * ceil_div(R, kTile), kTileThreads,
                        Tiles{rows_RC, columns_CR, scales, x_RC, across, in_packs, in_words});
        });
  });
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
  return convert<false>(stream, type, nullptr, out_CR, {nullptr, scale_C}, x_RC);
}

int float8_rows_and_columns(void* stream, Type type, uint8_t* rows_RC, float* scale_R, uint8_t* columns_CR,
                            float* scale_C, ConstRows x_RC) {
  return convert<true>(stream, type, rows_RC, columns_CR, {scale_R, scale_C}, x_RC);
}

}  // namespace hearth::kernels
