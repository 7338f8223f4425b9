// SPDX-License-Identifier: Apache-2.0
#include "ops/activation.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "ops/activation.cpp"
#include <hwy/foreach_target.h>
//
#include <hwy/contrib/math/math-inl.h>

#include "ops/access.h"
#include "ops/cpu/simd-inl.h"
#include "ops/gpu/calls.h"
#include "ops/gpu/gpu.h"
#include "ops/reference.h"
#include "trace/spans.h"

HWY_BEFORE_NAMESPACE();
namespace hearth::ops::HWY_NAMESPACE {

// 1 / (1 + exp(-g)). Below -88 the true value is under float's smallest normal number; the clamp keeps exp finite. NaN
// becomes a number here; the product with g makes it NaN again.
HWY_INLINE V32 sigmoid(F32 d, V32 g) {
  const V32 one = hn::Set(d, 1.0f);
  const V32 e = hn::Exp(d, hn::Min(hn::Neg(g), hn::Set(d, 88.0f)));
  return hn::Div(one, hn::Add(one, e));
}

// The functions: f(g), and f'(g) beside it. Gated: f(g) factor(u), and the gradient of u, where x is that of the
// factor.
struct Activated {
  V32 value, slope;
};
struct Gated {
  static HWY_INLINE V32 factor(F32 /*d*/, V32 u) { return u; }
  static HWY_INLINE V32 passed(F32 /*d*/, V32 x, V32 /*u*/) { return x; }
};
struct Silu : Gated {
  static HWY_INLINE V32 value(F32 d, V32 g) { return hn::Mul(g, sigmoid(d, g)); }
  static HWY_INLINE Activated both(F32 d, V32 g) {  // s + g s (1 - s)
    const V32 s = sigmoid(d, g), silu = hn::Mul(g, s);
    return {silu, hn::MulAdd(silu, hn::Sub(hn::Set(d, 1.0f), s), s)};
  }
};

// (1 + erf(g / sqrt(2))) / 2 with a quotient of polynomials for erf, minimax on [-4, 4] as in Eigen: its error is
// below 1e-7. Beyond, erf is -1 or 1 in float32. NaN as in sigmoid.
HWY_INLINE V32 normal_cdf(F32 d, V32 g) {
  constexpr float kUpper[] = {-2.72614225801306e-10f, 2.77068142495902e-08f,  -2.10102402082508e-06f,
                              -5.69250639462346e-05f, -7.34990630326855e-04f, -2.95459980854025e-03f,
                              -1.60960333262415e-02f};
  constexpr float kLower[] = {-1.45660718464996e-05f, -2.13374055278905e-04f, -1.68282697438203e-03f,
                              -7.37332916720468e-03f, -1.42647390514189e-02f};
  const V32 limit = hn::Set(d, 4.0f);
  const V32 argument = hn::Mul(g, hn::Set(d, 0.70710678118654752f));
  const V32 x = hn::Max(hn::Min(argument, limit), hn::Neg(limit));
  const V32 square = hn::Mul(x, x);
  V32 upper = hn::Set(d, kUpper[0]), lower = hn::Set(d, kLower[0]);
  for (int i = 1; i < 7; ++i) upper = hn::MulAdd(upper, square, hn::Set(d, kUpper[i]));
  for (int i = 1; i < 5; ++i) lower = hn::MulAdd(lower, square, hn::Set(d, kLower[i]));
  const V32 half = hn::Set(d, 0.5f), erf = hn::Div(hn::Mul(x, upper), lower);
  const V32 inside = hn::IfThenElse(hn::Ge(argument, limit), hn::Set(d, 1.0f), hn::MulAdd(half, erf, half));
  return hn::IfThenZeroElse(hn::Le(argument, hn::Neg(limit)), inside);
}
struct Gelu : Gated {
  static HWY_INLINE V32 value(F32 d, V32 g) { return hn::Mul(g, normal_cdf(d, g)); }
  static HWY_INLINE Activated both(F32 d, V32 g) {  // cdf + g exp(-g^2 / 2) / sqrt(2 pi)
    const V32 cdf = normal_cdf(d, g);
    const V32 exponent = hn::Max(hn::Mul(hn::Mul(g, g), hn::Set(d, -0.5f)), hn::Set(d, -88.0f));
    const V32 density = hn::Mul(hn::Exp(d, exponent), hn::Set(d, 0.39894228040143268f));
    return {hn::Mul(g, cdf), hn::MulAdd(g, density, cdf)};
  }
};

// (1 + tanh(z)) / 2 is sigmoid(2 z), so this is silu with another argument of the sigmoid. Beyond 10 the sigmoid is 0
// or 1 in float32; the clamp keeps the argument and its slope finite.
struct GeluTanh : Gated {
  static constexpr float kLinear = 1.59576912160573071f, kCubic = 0.044715f;  // 2 sqrt(2 / pi)
  static HWY_INLINE V32 clamped(F32 d, V32 g) { return hn::Max(hn::Min(g, hn::Set(d, 10.0f)), hn::Set(d, -10.0f)); }
  // sigmoid(2 z) for a clamped c
  static HWY_INLINE V32 share(F32 d, V32 c) {
    const V32 inner = hn::MulAdd(hn::Mul(c, c), hn::Set(d, kCubic), hn::Set(d, 1.0f));
    return sigmoid(d, hn::Mul(hn::Mul(c, hn::Set(d, kLinear)), inner));
  }
  static HWY_INLINE V32 value(F32 d, V32 g) { return hn::Mul(g, share(d, clamped(d, g))); }
  static HWY_INLINE Activated both(F32 d, V32 g) {  // s + g s (1 - s) times the argument's slope
    const V32 c = clamped(d, g), s = share(d, c), gelu = hn::Mul(g, s), one = hn::Set(d, 1.0f);
    const V32 slope = hn::Mul(hn::MulAdd(hn::Mul(c, c), hn::Set(d, 3 * kCubic), one), hn::Set(d, kLinear));
    return {gelu, hn::MulAdd(hn::Mul(gelu, hn::Sub(one, s)), slope, s)};
  }
};

struct Relu2 : Gated {
  // NaN stays NaN.
  static HWY_INLINE V32 positive(F32 d, V32 g) { return hn::IfThenZeroElse(hn::Le(g, hn::Zero(d)), g); }
  static HWY_INLINE V32 value(F32 d, V32 g) { return hn::Mul(positive(d, g), positive(d, g)); }
  static HWY_INLINE Activated both(F32 d, V32 g) {
    const V32 p = positive(d, g);
    return {hn::Mul(p, p), hn::Add(p, p)};
  }
};

// NaN stays NaN.
struct ClampedSwiglu {
  static constexpr float kLimit = 7, kSteepness = 1.702f;
  static HWY_INLINE V32 least(F32 d, V32 x) {
    const V32 limit = hn::Set(d, kLimit);
    return hn::IfThenElse(hn::Gt(x, limit), limit, x);
  }
  static HWY_INLINE V32 value(F32 d, V32 g) {
    const V32 c = least(d, g);
    return hn::Mul(c, sigmoid(d, hn::Mul(c, hn::Set(d, kSteepness))));
  }
  static HWY_INLINE Activated both(F32 d, V32 g) {  // s + 1.702 c s (1 - s), and 0 beyond the limit
    const V32 c = least(d, g), steepness = hn::Set(d, kSteepness);
    const V32 s = sigmoid(d, hn::Mul(c, steepness)), f = hn::Mul(c, s);
    const V32 slope = hn::MulAdd(hn::Mul(f, steepness), hn::Sub(hn::Set(d, 1.0f), s), s);
    return {f, hn::IfThenZeroElse(hn::Gt(g, hn::Set(d, kLimit)), slope)};
  }
  static HWY_INLINE V32 factor(F32 d, V32 u) {
    const V32 most = hn::Set(d, -kLimit), v = least(d, u);
    return hn::Add(hn::IfThenElse(hn::Lt(v, most), most, v), hn::Set(d, 1.0f));
  }
  static HWY_INLINE V32 passed(F32 d, V32 x, V32 u) {
    return hn::IfThenZeroElse(hn::Gt(hn::Abs(u), hn::Set(d, kLimit)), x);
  }
};

// body(function): one of the structs above.
template <class Body>
HWY_INLINE void with_function(plan::Activation function, const Body& body) {
  switch (function) {
    case plan::Activation::kSilu:
      return body(Silu());
    case plan::Activation::kGelu:
      return body(Gelu());
    case plan::Activation::kGeluTanh:
      return body(GeluTanh());
    case plan::Activation::kRelu2:
      return body(Relu2());
    case plan::Activation::kClampedSwiglu:
      return body(ClampedSwiglu());
  }
}

// `up` null: without a gate.
template <class T>
HWY_INLINE void forward_row(plan::Activation function, T* a, const T* gate, const T* up, int64_t F) {
  const F32 d;
  with_function(function, [&]<class Function>(Function) HWY_ATTR {
    if (up == nullptr) {
      return for_lanes(d, F, [&](int64_t f, int64_t count) HWY_ATTR {
        store(Function::value(d, load(d, gate + f, count)), d, a + f, count);
      });
    }
    for_lanes(d, F, [&](int64_t f, int64_t count) HWY_ATTR {
      store(hn::Mul(Function::value(d, load(d, gate + f, count)), Function::factor(d, load(d, up + f, count))), d,
            a + f, count);
    });
  });
}

// d_gate = da u f'(g), d_up = da f(g). Reads each element before it writes it: outputs may be the inputs.
template <class T>
HWY_INLINE void backward_row(plan::Activation function, T* d_gate, T* d_up, T* a, const T* da, const T* gate,
                             const T* up, int64_t F) {
  const F32 d;
  with_function(function, [&]<class Function>(Function) HWY_ATTR {
    if (up == nullptr) {
      return for_lanes(d, F, [&](int64_t f, int64_t count) HWY_ATTR {
        const Activated x = Function::both(d, load(d, gate + f, count));
        store(hn::Mul(load(d, da + f, count), x.slope), d, d_gate + f, count);
        if (a != nullptr) store(x.value, d, a + f, count);
      });
    }
    for_lanes(d, F, [&](int64_t f, int64_t count) HWY_ATTR {
      const V32 u = load(d, up + f, count), gradient = load(d, da + f, count), factor = Function::factor(d, u);
      const Activated x = Function::both(d, load(d, gate + f, count));
      store(hn::Mul(hn::Mul(gradient, factor), x.slope), d, d_gate + f, count);
      store(Function::passed(d, hn::Mul(gradient, x.value), u), d, d_up + f, count);
      if (a != nullptr) store(hn::Mul(x.value, factor), d, a + f, count);
    });
  });
}

using BF16 = c10::BFloat16;
void activation_forward_f32(plan::Activation function, float* a, const float* gate, const float* up, int64_t F) {
  forward_row(function, a, gate, up, F);
}
void activation_forward_bf16(plan::Activation function, BF16* a, const BF16* gate, const BF16* up, int64_t F) {
  forward_row(function, a, gate, up, F);
}
void activation_backward_f32(plan::Activation function, float* d_gate, float* d_up, float* a, const float* da,
                             const float* gate, const float* up, int64_t F) {
  backward_row(function, d_gate, d_up, a, da, gate, up, F);
}
void activation_backward_bf16(plan::Activation function, BF16* d_gate, BF16* d_up, BF16* a, const BF16* da,
                              const BF16* gate, const BF16* up, int64_t F) {
  backward_row(function, d_gate, d_up, a, da, gate, up, F);
}

}  // namespace hearth::ops::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace hearth::ops {

HWY_EXPORT(activation_forward_f32);
HWY_EXPORT(activation_forward_bf16);
HWY_EXPORT(activation_backward_f32);
HWY_EXPORT(activation_backward_bf16);

namespace {

auto forward_kernel(float) { return HWY_DYNAMIC_DISPATCH(activation_forward_f32); }
auto forward_kernel(c10::BFloat16) { return HWY_DYNAMIC_DISPATCH(activation_forward_bf16); }
auto backward_kernel(float) { return HWY_DYNAMIC_DISPATCH(activation_backward_f32); }
auto backward_kernel(c10::BFloat16) { return HWY_DYNAMIC_DISPATCH(activation_backward_bf16); }

template <class T>
void forward(plan::Activation function, const Matrix<T>& a, const Matrix<const T>& x) {
  const int64_t F = a.cols;
  const bool gated = x.cols > F;
  const auto kernel = forward_kernel(T());
  parallel(a.rows, F, [&](int64_t begin, int64_t end) {
    for (int64_t t = begin; t < end; ++t) kernel(function, a.row(t), x.row(t), gated ? x.row(t) + F : nullptr, F);
  });
}

void forward(plan::Activation function, const Matrix<double>& a, const Matrix<const double>& x) {
  reference::activation_forward(function, a, x);
}

template <class T>
void backward(plan::Activation function, const Matrix<T>& dx, const Matrix<const T>& da, const Matrix<const T>& x,
              const Matrix<T>& a) {
  const int64_t F = da.cols;
  const bool gated = x.cols > F;
  const auto kernel = backward_kernel(T());
  parallel(da.rows, F, [&](int64_t begin, int64_t end) {
    for (int64_t t = begin; t < end; ++t)
      kernel(function, dx.row(t), gated ? dx.row(t) + F : nullptr, a.row(t), da.row(t), x.row(t),
             gated ? x.row(t) + F : nullptr, F);
  });
}

void backward(plan::Activation function, const Matrix<double>& dx, const Matrix<const double>& da,
              const Matrix<const double>& x, const Matrix<double>& a) {
  reference::activation_backward(function, dx, da, x, a);
}

void check_widths(const at::Tensor& x_TN, int64_t F) {
  HEARTH_CHECK(x_TN.size(1) == F || x_TN.size(1) == 2 * F, "{} columns for {}", x_TN.size(1), F);
}

}  // namespace

void activation_forward(plan::Activation function, const at::Tensor& a_TF, const at::Tensor& x_TN) {
  const trace::SpanScope span(trace::SpanKind::kOp, "activation_forward");
  const int64_t T = a_TF.size(0), F = a_TF.size(1);
  check_widths(x_TN, F);
  if (on_gpu(a_TF)) return gpu::activation_forward(function, a_TF, x_TN);
  with_element_type(a_TF, [&](auto zero) {
    using Value = decltype(zero);
    forward(function, matrix<Value>(a_TF, T, F), matrix<const Value>(x_TN, T, x_TN.size(1)));
  });
}

void activation_backward(plan::Activation function, const at::Tensor& dx_TN, const at::Tensor& da_TF,
                         const at::Tensor& x_TN, const at::Tensor& a_TF) {
  const trace::SpanScope span(trace::SpanKind::kOp, "activation_backward");
  const int64_t T = da_TF.size(0), F = da_TF.size(1), N = x_TN.size(1);
  check_widths(x_TN, F);
  if (on_gpu(da_TF)) return gpu::activation_backward(function, dx_TN, da_TF, x_TN, a_TF);
  with_element_type(da_TF, [&](auto zero) {
    using Value = decltype(zero);
    const auto a = a_TF.defined() ? matrix<Value>(a_TF, T, F) : Matrix<Value>{};
    backward(function, matrix<Value>(dx_TN, T, N), matrix<const Value>(da_TF, T, F), matrix<const Value>(x_TN, T, N),
             a);
  });
}

}  // namespace hearth::ops
#endif
