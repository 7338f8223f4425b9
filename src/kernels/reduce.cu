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

}  // namespace hearth::kernels
