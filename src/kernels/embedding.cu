// SPDX-License-Identifier: Apache-2.0
#include "kernels/entries.h"
#include "kernels/launch.h"

namespace hearth::kernels {
namespace {

template <class T, int W>
__global__ void __launch_bounds__(256)
    embedding_forward_kernel(Rows x, ConstRows weight, const int32_t* tokens_T, int64_t first, int32_t chunks) {
  const auto [t, d] = cell_of<W>(chunks);
  if (d >= x.cols) return;
  const int64_t row = tokens_T[t] - first;
  Pack<T, W> values;
  if (row >= 0 && row < weight.rows) {
    values = load<W>(static_cast<const T*>(weight.data) + row * weight.stride + d);
  } else {
    for (int k = 0; k < W; ++k) values.set(k, 0);
  }
  store<W>(static_cast<T*>(x.data) + t * x.stride + d, values);
}

// The block at a token's first place in the order adds all its rows, one after the other; other blocks return. It loads
// several rows at a time, because the loop waits for memory.
template <class T, int W>
__global__ void __launch_bounds__(256)
    embedding_backward_kernel(Rows dweight, ConstRows dx, const int32_t* tokens_T, const int64_t* order_T,
                              int64_t first_id, int32_t chunks) {
  constexpr int kInFlight = 4;
  const auto [first, d] = cell_of<W>(chunks);
  if (d >= dx.cols) return;
  const int32_t token = tokens_T[order_T[first]];
  const int64_t row = token - first_id;
  if (row < 0 || row >= dweight.rows || (first > 0 && tokens_T[order_T[first - 1]] == token)) return;
  float* to = static_cast<float*>(dweight.data) + row * dweight.stride + d;
  const T* from = static_cast<const T*>(dx.data) + d;
  Pack<float, W> sum = load<W>(to);
  for (int64_t place = first; place < dx.rows; place += kInFlight) {
    int64_t rows[kInFlight];
    int count = 0;
#pragma unroll
    for (int i = 0; i < kInFlight; ++i) {
      rows[i] = place + i < dx.rows ? order_T[place + i] : -1;
      if (rows[i] >= 0 && tokens_T[rows[i]] == token) ++count;
    }
    Pack<T, W> more[kInFlight];
#pragma unroll
    for (int i = 0; i < kInFlight; ++i) {
      if (i < count) more[i] = load<W>(from + rows[i] * dx.stride);
    }
#pragma unroll
    for (int i = 0; i < kInFlight; ++i) {
      for (int k = 0; k < W; ++k) sum.set(k, i < count ? sum[k] + more[i][k] : sum[k]);
    }
    if (count < kInFlight) break;
  }
  store<W>(to, sum);
}

}  // namespace

int embedding_forward(void* stream, Type type, Rows x_TD, ConstRows weight_VD, const int32_t* tokens_T, int64_t first) {
  return with_type(type, [&](auto zero) {
    using T = decltype(zero);
    const bool aligned = x_TD.cols % kWidth<T> == 0 && is_aligned<T>(x_TD) && is_aligned<T>(weight_VD);
    return with_width<T>(aligned, [&](auto W) {
      const RowGrid grid = row_grid(x_TD.rows, x_TD.cols, W());
      return launch(stream, &embedding_forward_kernel<T, W()>, grid.blocks, grid.threads, x_TD, weight_VD, tokens_T,
                    first, grid.chunks);
    });
  });
}

int embedding_backward(void* stream, Type type, Rows dweight_VD, ConstRows dx_TD, const int32_t* tokens_T,
                       const int64_t* order_T, int64_t first) {
  return with_type(type, [&](auto zero) {
    using T = decltype(zero);
    const bool aligned = dx_TD.cols % kWidth<T> == 0 && is_aligned<T>(dx_TD) && is_aligned<float>(dweight_VD);
    return with_width<T>(aligned, [&](auto W) {
      const RowGrid grid = row_grid(dx_TD.rows, dx_TD.cols, W());
      return launch(stream, &embedding_backward_kernel<T, W()>, grid.blocks, grid.threads, dweight_VD, dx_TD, tokens_T,
                    order_T, first, grid.chunks);
    });
  });
}

}  // namespace hearth::kernels
