// SPDX-License-Identifier: Apache-2.0
// From the table's functions to kernels: the choice of the instance, the number of blocks, and errors.
#pragma once

#include <type_traits>

#include "kernels/kernels.h"
#include "kernels/numbers.h"
#include "kernels/platform.h"

namespace hearth::kernels {

// Our own error codes; the platform's are positive.
inline constexpr int kTooManyBlocks = -1, kTooWide = -2;

// Enough blocks to fill any GPU several times, for kernels whose threads loop over their work. The number is the same
// on every device, because it decides how partial sums are cut: so every device adds in the same order.
inline constexpr int64_t kFullGrid = 1056;  // 8 blocks on each of 132 multiprocessors

// Threads of a block in most kernels.
inline constexpr int kThreads = 256;

__host__ __device__ constexpr int64_t ceil_div(int64_t a, int64_t b) { return (a + b - 1) / b; }

// The threads of a block for `work` items, at most `limit` (a multiple of kBlockMultiple).
constexpr int threads_for(int64_t work, int limit) {
  return work >= limit            ? limit
         : work <= kBlockMultiple ? kBlockMultiple
                                  : static_cast<int>(ceil_div(work, kBlockMultiple) * kBlockMultiple);
}

// Enqueues kernel(arguments...). Without blocks it does nothing.
template <class... P>
int launch(void* stream, void (*kernel)(P...), int64_t blocks, int threads, std::type_identity_t<P>... arguments) {
  if (blocks == 0) return 0;
  if (blocks > INT32_MAX) return kTooManyBlocks;
#if defined(__HIPCC__)
  void* pointers[] = {const_cast<void*>(static_cast<const void*>(&arguments))...};
  return hipLaunchKernel(reinterpret_cast<const void*>(kernel), dim3(static_cast<uint32_t>(blocks)),
                         dim3(static_cast<uint32_t>(threads)), pointers, 0, static_cast<hipStream_t>(stream));
#elif defined(__CUDACC__)
  void* pointers[] = {const_cast<void*>(static_cast<const void*>(&arguments))...};
  return cudaLaunchKernel(reinterpret_cast<const void*>(kernel), dim3(static_cast<uint32_t>(blocks)),
                          dim3(static_cast<uint32_t>(threads)), pointers, 0, static_cast<cudaStream_t>(stream));
#else
  (void)stream;
  return host::run(blocks, threads, [&] { kernel(arguments...); });
#endif
}

// Runs launches one after the other, until one fails.
template <class... Rest>
int in_turn(int first, const Rest&... rest) {
  int code = first;
  ((code = code != 0 ? code : rest()), ...);
  return code;
}

// body(float()) or body(BFloat16()).
template <class Body>
int with_type(Type type, const Body& body) {
  return type == Type::kFloat32 ? body(float()) : body(BFloat16());
}

// The number of T in one access of 16 bytes.
template <class T>
inline constexpr int kWidth = 16 / static_cast<int>(sizeof(T));

// Whether rows at `data`, `stride` elements apart, are aligned for accesses of 16 bytes. False for null.
template <class T>
bool is_aligned(const T* data, int64_t stride = 0) {
  return reinterpret_cast<uintptr_t>(data) % 16 == 0 && stride * static_cast<int64_t>(sizeof(T)) % 16 == 0;
}
template <class T, class R>
bool is_aligned(const R& rows) {
  return is_aligned(static_cast<const T*>(rows.data), rows.stride);
}

// body(W) as an integral constant: kWidth<T> if `in_packs`, else 1.
template <class T, class Body>
int with_width(bool in_packs, const Body& body) {
  if (in_packs) return body(std::integral_constant<int, kWidth<T>>());
  return body(std::integral_constant<int, 1>());
}

// sums [cols] += the sum of `rows` rows of partial [rows, cols], added in double in a fixed order (reduce.cu): for
// kernels whose blocks leave a row each.
int add_partial_rows(void* stream, float* sums, const float* partial, int64_t rows, int64_t cols);

// Blocks for independent elements of [rows, cols], W columns a thread: a row is `chunks` blocks.
struct RowGrid {
  int64_t blocks;
  int threads;
  int32_t chunks;
};
inline RowGrid row_grid(int64_t rows, int64_t cols, int W) {
  const int64_t items = ceil_div(cols, W);
  const int threads = threads_for(items, 256);
  const int64_t chunks = ceil_div(items, threads);
  return {rows * chunks, threads, static_cast<int32_t>(chunks)};
}
// A thread's first element in such a grid.
struct Cell {
  int64_t row, col;
};
template <int W>
__device__ inline Cell cell_of(int32_t chunks) {
  const auto block = static_cast<int32_t>(blockIdx.x);
  return {block / chunks, (static_cast<int64_t>(block % chunks) * blockDim.x + threadIdx.x) * W};
}

}  // namespace hearth::kernels
