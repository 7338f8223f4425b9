// SPDX-License-Identifier: Apache-2.0
// Sums: of squares, of rows; and biases, whose gradient is a sum of rows.
#include "kernels/block.h"
#include "kernels/entries.h"
#include "kernels/launch.h"

namespace hearth::kernels {
namespace {

// A float32's square is exact in double: only the sums are rounded.
template <class T, int W>
__global__ void __launch_bounds__(kThreads) squares_kernel(const T* x, int64_t n, double* partial) {
  double sum = 0;
  const int64_t step = static_cast<int64_t>(gridDim.x) * kThreads * W;
#pragma unroll 4
  for (int64_t i = (static_cast<int64_t>(blockIdx.x) * kThreads + threadIdx.x) * W; i < n; i += step) {
    if (i + W <= n) {
      const Pack<T, W> pack = load<W>(x + i);
      for (int k = 0; k < W; ++k) sum = fma(static_cast<double>(pack[k]), static_cast<double>(pack[k]), sum);
    } else {
      for (int64_t k = i; k < n; ++k)
        sum = fma(static_cast<double>(to_float(x[k])), static_cast<double>(to_float(x[k])), sum);
    }
  }
  sum = block_sum(sum);
  if (threadIdx.x == 0) partial[blockIdx.x] = sum;
}

__global__ void __launch_bounds__(kThreads) add_kernel(const double* partial, int64_t count, double* out) {
  double sum = 0;
  for (int64_t i = threadIdx.x; i < count; i += kThreads) sum += partial[i];
  sum = block_sum(sum);
  if (threadIdx.x == 0) *out += sum;
}

template <class T, int W>
__global__ void __launch_bounds__(256) add_bias_kernel(Rows y, const T* bias, int32_t chunks) {
  const auto [t, n] = cell_of<W>(chunks);
  if (n >= y.cols) return;
  T* to = static_cast<T*>(y.data) + t * y.stride + n;
  Pack<T, W> out = load<W>(to);
  const Pack<T, W> b = load<W>(bias + n);
#pragma unroll
  for (int k = 0; k < W; ++k) out.set(k, out[k] + b[k]);
  store<W>(to, out);
}

// Rows are cut into parts. A thread adds W columns of a part's rows, one after the other, and writes the sums to the
// part's row of `partial`.
template <class T, int W>
__global__ void __launch_bounds__(256)
    sum_parts_kernel(float* partial, ConstRows x, int64_t part_rows, int32_t chunks) {
  const auto [part, n] = cell_of<W>(chunks);
  if (n >= x.cols) return;
  const int64_t begin = part * part_rows, end = begin + part_rows < x.rows ? begin + part_rows : x.rows;
  float sums[W] = {};
  for (int64_t t = begin; t < end; ++t) {
    const Pack<T, W> row = load<W>(static_cast<const T*>(x.data) + t * x.stride + n);
#pragma unroll
    for (int k = 0; k < W; ++k) sums[k] += row[k];
  }
  for (int k = 0; k < W; ++k) partial[part * x.cols + n + k] = sums[k];
}

// sums += the sum of `rows` rows of partial. A block has 32 columns, and 8 threads for each; each adds every 8th
// row.
__global__ void __launch_bounds__(256) add_rows_kernel(float* sums, const float* partial, int64_t rows, int64_t D) {
  constexpr int kColumns = 32, kParts = 8;
  __shared__ double parts[kParts][kColumns];
  const int column = static_cast<int>(threadIdx.x) % kColumns, part = static_cast<int>(threadIdx.x) / kColumns;
  const int64_t col = static_cast<int64_t>(blockIdx.x) * kColumns + column;
  double sum = 0;
  if (col < D) {
#pragma unroll 4
    for (int64_t row = part; row < rows; row += kParts) sum += static_cast<double>(partial[row * D + col]);
  }
  parts[part][column] = sum;
  __syncthreads();
  if (part != 0 || col >= D) return;
  double total = static_cast<double>(sums[col]);
  for (int p = 0; p < kParts; ++p) total += parts[p][column];
  sums[col] = static_cast<float>(total);
}

// Parts of at least 64 rows, at most 256: enough blocks for a GPU, and few partial sums. They depend on the number of
// rows alone.
constexpr int64_t kLeastPart = 64, kMostParts = 256;
int64_t rows_of_part(int64_t rows) {
  const int64_t part = ceil_div(rows, kMostParts);
  return part < kLeastPart ? kLeastPart : part;
}

}  // namespace

int64_t sum_of_squares_scratch(int64_t n) {
  const int64_t blocks = ceil_div(n, kThreads * 16);
  return blocks < kFullGrid ? blocks : kFullGrid;
}

int sum_of_squares(void* stream, Type type, const void* x, int64_t n, double* scratch, double* out_1) {
  const int64_t blocks = sum_of_squares_scratch(n);
  const int code = with_type(type, [&](auto zero) {
    using T = decltype(zero);
    const auto* data = static_cast<const T*>(x);
    return with_width<T>(is_aligned(data), [&](auto W) {
      return launch(stream, &squares_kernel<T, W()>, blocks, kThreads, data, n, scratch);
    });
  });
  if (code != 0 || n == 0) return code;
  return launch(stream, &add_kernel, 1, kThreads, scratch, blocks, out_1);
}

int add_partial_rows(void* stream, float* sums, const float* partial, int64_t rows, int64_t cols) {
  return launch(stream, &add_rows_kernel, ceil_div(cols, 32), 256, sums, partial, rows, cols);
}

int add_bias(void* stream, Type type, Rows y_TN, const void* bias_N) {
  return with_type(type, [&](auto zero) {
    using T = decltype(zero);
    const auto* bias = static_cast<const T*>(bias_N);
    const bool aligned = y_TN.cols % kWidth<T> == 0 && is_aligned<T>(y_TN) && is_aligned(bias);
    return with_width<T>(aligned, [&](auto W) {
      const RowGrid grid = row_grid(y_TN.rows, y_TN.cols, W());
      return launch(stream, &add_bias_kernel<T, W()>, grid.blocks, grid.threads, y_TN, bias, grid.chunks);
    });
  });
}

int64_t add_rows_scratch(int64_t T, int64_t N) { return ceil_div(T, rows_of_part(T)) * N; }

int add_rows(void* stream, Type type, float* sums_N, ConstRows x_TN, float* scratch) {
  if (x_TN.rows == 0) return 0;
  const int64_t part = rows_of_part(x_TN.rows), parts = ceil_div(x_TN.rows, part);
  const int code = with_type(type, [&](auto zero) {
    using T = decltype(zero);
    return with_width<T>(x_TN.cols % kWidth<T> == 0 && is_aligned<T>(x_TN), [&](auto W) {
      const RowGrid grid = row_grid(parts, x_TN.cols, W());
      return launch(stream, &sum_parts_kernel<T, W()>, grid.blocks, grid.threads, scratch, x_TN, part, grid.chunks);
    });
  });
  return code != 0 ? code : add_partial_rows(stream, sums_N, scratch, parts, x_TN.cols);
}

}  // namespace hearth::kernels
