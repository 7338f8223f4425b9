// SPDX-License-Identifier: Apache-2.0
#include "kernels/entries.h"
#include "kernels/launch.h"

namespace hearth::kernels {
namespace {

// 1 / (1 + exp(-g)), with exp kept finite. NaN becomes a number here; the product with g makes it NaN again.
__device__ inline float sigmoid(float g) { return 1 / (1 + expf(fminf(-g, 88))); }

// The functions: f(g), and f'(g) beside it. Formulas are in ops/activation.h. Gated: f(g) factor(u), and the gradient
// of u, where d is that of the factor.
struct Activated {
  float value, slope;
};
struct Gated {
  __device__ static float factor(float u) { return u; }
  __device__ static float passed(float d, float /*u*/) { return d; }
};
struct Silu : Gated {
  __device__ static Activated at(float g) {
    const float s = sigmoid(g), silu = g * s;
    return {silu, fmaf(silu, 1 - s, s)};
  }
};
struct Gelu : Gated {
  __device__ static Activated at(float g) {
    const float cdf = 0.5f * (1 + erff(g * 0.70710678118654752f));
    const float density = 0.39894228040143268f * expf(fmaxf(-0.5f * g * g, -88));
    return {g * cdf, fmaf(g, density, cdf)};
  }
};
// (1 + tanh(z)) / 2 is sigmoid(2 z); 1.59... is 2 sqrt(2 / pi). Beyond 10 the sigmoid is 0 or 1 in float32; the clamp
// keeps its argument and the argument's slope finite.
struct GeluTanh : Gated {
  __device__ static Activated at(float g) {
    const float c = fminf(fmaxf(g, -10), 10), square = c * c;
    const float s = sigmoid(c * 1.59576912160573071f * fmaf(square, 0.044715f, 1)), gelu = g * s;
    return {gelu, fmaf(gelu * (1 - s), fmaf(square, 3 * 0.044715f, 1) * 1.59576912160573071f, s)};
  }
};
struct Relu2 : Gated {
  __device__ static Activated at(float g) {
    const float positive = g <= 0 ? 0 : g;  // NaN stays NaN
    return {positive * positive, 2 * positive};
  }
};
// NaN stays NaN.
struct ClampedSwiglu {
  static constexpr float kLimit = 7, kSteepness = 1.702f;
  __device__ static Activated at(float g) {
    const float c = g > kLimit ? kLimit : g, s = sigmoid(kSteepness * c), value = c * s;
    return {value, g > kLimit ? 0 : fmaf(kSteepness * value, 1 - s, s)};
  }
  __device__ static float factor(float u) { return (u > kLimit ? kLimit : u < -kLimit ? -kLimit : u) + 1; }
  __device__ static float passed(float d, float u) { return fabsf(u) > kLimit ? 0 : d; }
};

template <class T, int W, class Function, bool kGated>
__global__ void __launch_bounds__(256) activation_forward_kernel(Rows a, ConstRows x, int32_t chunks) {
  const auto [t, f] = cell_of<W>(chunks);
  if (f >= a.cols) return;
  const T* row = static_cast<const T*>(x.data) + t * x.stride + f;
  const Pack<T, W> g = load<W>(row);
  Pack<T, W> u, out;
  if constexpr (kGated) u = load<W>(row + a.cols);
#pragma unroll
  for (int k = 0; k < W; ++k) {
    const float value = Function::at(g[k]).value;
    if constexpr (kGated) {
      out.set(k, value * Function::factor(u[k]));
    } else {
      out.set(k, value);
    }
  }
  store<W>(static_cast<T*>(a.data) + t * a.stride + f, out);
}

// d_gate = da u f'(g), d_up = da f(g). A thread reads its elements before it writes them: outputs may be inputs.
// kAgain: forward's output is written to a.
template <class T, int W, class Function, bool kGated, bool kAgain>
__global__ void __launch_bounds__(256)
    activation_backward_kernel(Rows dx, ConstRows da, ConstRows x, Rows a, int32_t chunks) {
  const auto [t, f] = cell_of<W>(chunks);
  if (f >= da.cols) return;
  const T* row = static_cast<const T*>(x.data) + t * x.stride + f;
  const Pack<T, W> g = load<W>(row);
  const Pack<T, W> gradient = load<W>(static_cast<const T*>(da.data) + t * da.stride + f);
  Pack<T, W> u, d_gate, d_up, again;
  if constexpr (kGated) u = load<W>(row + da.cols);
#pragma unroll
  for (int k = 0; k < W; ++k) {
    const Activated gate = Function::at(g[k]);
    if constexpr (kGated) {
      d_gate.set(k, gradient[k] * Function::factor(u[k]) * gate.slope);
      d_up.set(k, Function::passed(gradient[k] * gate.value, u[k]));
      if constexpr (kAgain) again.set(k, gate.value * Function::factor(u[k]));
    } else {
      d_gate.set(k, gradient[k] * gate.slope);
      if constexpr (kAgain) again.set(k, gate.value);
    }
  }
  T* to = static_cast<T*>(dx.data) + t * dx.stride + f;
  store<W>(to, d_gate);
  if constexpr (kGated) store<W>(to + da.cols, d_up);
  if constexpr (kAgain) store<W>(static_cast<T*>(a.data) + t * a.stride + f, again);
}

// body(function, gated): one of the structs above, and whether there is a gate as an integral constant.
template <class Body>
int with_function(ActivationKind kind, bool gated, const Body& body) {
  const auto of = [&](auto function) {
    return gated ? body(function, std::true_type()) : body(function, std::false_type());
  };
  switch (kind) {
    case ActivationKind::kSilu:
      return of(Silu());
    case ActivationKind::kGelu:
      return of(Gelu());
    case ActivationKind::kGeluTanh:
      return of(GeluTanh());
    case ActivationKind::kRelu2:
      return of(Relu2());
    case ActivationKind::kClampedSwiglu:
      break;
  }
  return of(ClampedSwiglu());
}

}  // namespace

int activation_forward(void* stream, Type type, ActivationKind kind, Rows a_TF, ConstRows x_TN) {
  return with_type(type, [&](auto zero) {
    using T = decltype(zero);
    const bool aligned = a_TF.cols % kWidth<T> == 0 && is_aligned<T>(a_TF) && is_aligned<T>(x_TN);
    return with_width<T>(aligned, [&](auto W) {
      const RowGrid grid = row_grid(a_TF.rows, a_TF.cols, W());
      return with_function(kind, x_TN.cols > a_TF.cols, [&](auto function, auto gated) {
        return launch(stream, &activation_forward_kernel<T, W(), decltype(function), gated()>, grid.blocks,
                      grid.threads, a_TF, x_TN, grid.chunks);
      });
    });
  });
}

int activation_backward(void* stream, Type type, ActivationKind kind, Rows dx_TN, ConstRows da_TF, ConstRows x_TN,
                        Rows a_TF) {
  return with_type(type, [&](auto zero) {
    using T = decltype(zero);
    const bool aligned = da_TF.cols % kWidth<T> == 0 && is_aligned<T>(dx_TN) && is_aligned<T>(da_TF) &&
                         is_aligned<T>(x_TN) && (a_TF.data == nullptr || is_aligned<T>(a_TF));
    return with_width<T>(aligned, [&](auto W) {
      const RowGrid grid = row_grid(da_TF.rows, da_TF.cols, W());
      const auto run = [&](auto kernel) {
        return launch(stream, kernel, grid.blocks, grid.threads, dx_TN, da_TF, x_TN, a_TF, grid.chunks);
      };
      return with_function(kind, x_TN.cols > da_TF.cols, [&](auto function, auto gated) {
        using Function = decltype(function);
        return a_TF.data != nullptr ? run(&activation_backward_kernel<T, W(), Function, gated(), true>)
                                    : run(&activation_backward_kernel<T, W(), Function, gated(), false>);
      });
    });
  });
}

}  // namespace hearth::kernels
