// SPDX-License-Identifier: Apache-2.0
// A block rotates all heads of one row, with one row of the table.
#include "kernels/documents.h"
#include "kernels/entries.h"
#include "kernels/launch.h"

namespace hearth::kernels {
namespace {

struct Rotation {
  Heads x;
  Places places;
  const float* table;  // [positions, K]
  Documents documents;
  float direction;
};

// The table's row for row `row` of [B * rows].
__device__ inline int64_t table_row_of(const Rotation& a, int64_t row) {
  const int64_t position = position_of(a.places, row % a.x.S);
  if (a.documents.starts_N == nullptr) return position;
  const int64_t place = row / a.x.S * a.places.S + position;
  return place - document_of(a.documents, place).begin;
}

template <class T>
__device__ inline T* heads_of(const Rotation& a, int64_t row) {
  return static_cast<T*>(a.x.data) + row / a.x.S * a.x.stride_b + row % a.x.S * a.x.stride_s;
}

// Pairs (2i, 2i+1): W elements are W/2 pairs, with their cosines and sines next to each other.
template <class T, int W>
__global__ void __launch_bounds__(256) neighbours_kernel(Rotation a) {
  const int64_t x_row = blockIdx.x;
  const int32_t packs = static_cast<int32_t>(a.x.K) / W, items = packs * static_cast<int32_t>(a.x.N);
  const float* row = a.table + table_row_of(a, x_row) * a.x.K;
  T* heads = heads_of<T>(a, x_row);
  for (int32_t item = static_cast<int32_t>(threadIdx.x); item < items; item += static_cast<int32_t>(blockDim.x)) {
    const int32_t k = item % packs * W;
    T* head = heads + item / packs * a.x.stride_n + k;
    const Pack<T, W> x = load<W>(head);
    const Pack<float, W> turn = load<W>(row + k);
    Pack<T, W> out;
#pragma unroll
    for (int i = 0; i < W; i += 2) {
      const float c = turn[i], s = turn[i + 1] * a.direction;
      out.set(i, fmaf(x[i], c, -(x[i + 1] * s)));
      out.set(i + 1, fmaf(x[i + 1], c, x[i] * s));
    }
    store<W>(head, out);
  }
}

// Pairs (i, i + K/2); the row holds all cosines, then all sines.
template <class T, int W>
__global__ void __launch_bounds__(256) halves_kernel(Rotation a) {
  const int64_t x_row = blockIdx.x, half = a.x.K / 2;
  const int32_t packs = static_cast<int32_t>(half) / W, items = packs * static_cast<int32_t>(a.x.N);
  const float* row = a.table + table_row_of(a, x_row) * a.x.K;
  T* heads = heads_of<T>(a, x_row);
  for (int32_t item = static_cast<int32_t>(threadIdx.x); item < items; item += static_cast<int32_t>(blockDim.x)) {
    const int32_t k = item % packs * W;
    T* head = heads + item / packs * a.x.stride_n + k;
    Pack<T, W> first = load<W>(head), second = load<W>(head + half);
    const Pack<float, W> cosines = load<W>(row + k), sines = load<W>(row + half + k);
#pragma unroll
    for (int i = 0; i < W; ++i) {
      const float c = cosines[i], s = sines[i] * a.direction, x = first[i], y = second[i];
      first.set(i, fmaf(-y, s, x * c));
      second.set(i, fmaf(x, s, y * c));
    }
    store<W>(head, first);
    store<W>(head + half, second);
  }
}

}  // namespace

int rope(void* stream, Type type, Heads x, Places places, const float* table, int32_t halves, const int32_t* starts_N,
         int64_t N, float direction) {
  const Rotation arguments = {x, places, table, {N > 0 ? starts_N : nullptr, N, places.S}, direction};
  return with_type(type, [&](auto zero) {
    using T = decltype(zero);
    const auto* data = static_cast<const T*>(x.data);
    const int64_t run = halves != 0 ? x.K / 2 : x.K;  // contiguous elements, in x and in the table
    const bool aligned = run % kWidth<T> == 0 && is_aligned(data, x.stride_b) && is_aligned(data, x.stride_s) &&
                         is_aligned(data, x.stride_n) && is_aligned(table);
    const int64_t items = x.N * (x.K / 2) / (aligned ? kWidth<T> : 1);
    const int threads = threads_for(halves != 0 || !aligned ? items : 2 * items, 256);
    if (halves != 0) {
      return with_width<T>(
          aligned, [&](auto W) { return launch(stream, &halves_kernel<T, W()>, x.B * x.S, threads, arguments); });
    }
    if (aligned) return launch(stream, &neighbours_kernel<T, kWidth<T>>, x.B * x.S, threads, arguments);
    return launch(stream, &neighbours_kernel<T, 2>, x.B * x.S, threads, arguments);
  });
}

}  // namespace hearth::kernels
