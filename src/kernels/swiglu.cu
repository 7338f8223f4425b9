// SPDX-License-Identifier: Apache-2.0
#include "kernels/entries.h"
#include "kernels/launch.h"

namespace hearth::kernels {
namespace {

// 1 / (1 + exp(-g)), with exp kept finite. NaN becomes a number here; the product with g makes it NaN again.
__device__ inline float sigmoid(float g) { return 1 / (1 + expf(fminf(-g, 88))); }

template <class T, int W>
__global__ void __launch_bounds__(256) swiglu_forward_kernel(Rows a, ConstRows gate_up, int32_t chunks) {
  const auto [t, f] = cell_of<W>(chunks);
  if (f >= a.cols) return;
  const T* row = static_cast<const T*>(gate_up.data) + t * gate_up.stride + f;
  const Pack<T, W> g = load<W>(row), u = load<W>(row + a.cols);
  Pack<T, W> out;
#pragma unroll
  for (int k = 0; k < W; ++k) out.set(k, g[k] * sigmoid(g[k]) * u[k]);
  store<W>(static_cast<T*>(a.data) + t * a.stride + f, out);
}

// d_gate = da u (s + g s (1 - s)), d_up = da g s. A thread reads its elements before it writes them: outputs may be
// inputs. kAgain: silu(g) * u is written to a.
template <class T, int W, bool kAgain>
__global__ void __launch_bounds__(256)
    swiglu_backward_kernel(Rows dgate_up, ConstRows da, ConstRows gate_up, Rows a, int32_t chunks) {
  const auto [t, f] = cell_of<W>(chunks);
  if (f >= da.cols) return;
  const T* row = static_cast<const T*>(gate_up.data) + t * gate_up.stride + f;
  const Pack<T, W> g = load<W>(row), u = load<W>(row + da.cols);
  const Pack<T, W> gradient = load<W>(static_cast<const T*>(da.data) + t * da.stride + f);
  Pack<T, W> d_gate, d_up, again;
#pragma unroll
  for (int k = 0; k < W; ++k) {
    const float s = sigmoid(g[k]), silu = g[k] * s;
    d_gate.set(k, gradient[k] * u[k] * fmaf(silu, 1 - s, s));
    d_up.set(k, gradient[k] * silu);
    if constexpr (kAgain) again.set(k, silu * u[k]);
  }
  T* to = static_cast<T*>(dgate_up.data) + t * dgate_up.stride + f;
  store<W>(to, d_gate);
  store<W>(to + da.cols, d_up);
  if constexpr (kAgain) store<W>(static_cast<T*>(a.data) + t * a.stride + f, again);
}

}  // namespace

int swiglu_forward(void* stream, Type type, Rows a_TF, ConstRows gate_up_T2F) {
  return with_type(type, [&](auto zero) {
    using T = decltype(zero);
    const bool aligned = a_TF.cols % kWidth<T> == 0 && is_aligned<T>(a_TF) && is_aligned<T>(gate_up_T2F);
    return with_width<T>(aligned, [&](auto W) {
      const RowGrid grid = row_grid(a_TF.rows, a_TF.cols, W());
      return launch(stream, &swiglu_forward_kernel<T, W()>, grid.blocks, grid.threads, a_TF, gate_up_T2F, grid.chunks);
    });
  });
}

int swiglu_backward(void* stream, Type type, Rows dgate_up_T2F, ConstRows da_TF, ConstRows gate_up_T2F, Rows a_TF) {
  return with_type(type, [&](auto zero) {
    using T = decltype(zero);
    const bool aligned = da_TF.cols % kWidth<T> == 0 && is_aligned<T>(dgate_up_T2F) && is_aligned<T>(da_TF) &&
                         is_aligned<T>(gate_up_T2F) && (a_TF.data == nullptr || is_aligned<T>(a_TF));
    return with_width<T>(aligned, [&](auto W) {
      const RowGrid grid = row_grid(da_TF.rows, da_TF.cols, W());
      const auto run = [&](auto kernel) {
        return launch(stream, kernel, grid.blocks, grid.threads, dgate_up_T2F, da_TF, gate_up_T2F, a_TF, grid.chunks);
      };
      return a_TF.data != nullptr ? run(&swiglu_backward_kernel<T, W(), true>)
                                  : run(&swiglu_backward_kernel<T, W(), false>);
    });
  });
}

}  // namespace hearth::kernels
