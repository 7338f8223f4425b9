// SPDX-License-Identifier: Apache-2.0
#include "ops/swiglu.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "ops/swiglu.cpp"
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

template <class T>
HWY_INLINE void forward_row(T* a, const T* gate, const T* up, int64_t F) {
  const F32 d;
  for_lanes(d, F, [&](int64_t f, int64_t count) HWY_ATTR {
    const V32 g = load(d, gate + f, count);
    store(hn::Mul(hn::Mul(g, sigmoid(d, g)), load(d, up + f, count)), d, a + f, count);
  });
}

// d_gate = da u (s + g s (1 - s)), d_up = da g s. Reads each element before it writes it: outputs may be the inputs.
template <class T>
HWY_INLINE void backward_row(T* d_gate, T* d_up, T* a, const T* da, const T* gate, const T* up, int64_t F) {
  const F32 d;
  for_lanes(d, F, [&](int64_t f, int64_t count) HWY_ATTR {
    const V32 g = load(d, gate + f, count), u = load(d, up + f, count), gradient = load(d, da + f, count);
    const V32 s = sigmoid(d, g);
    const V32 silu = hn::Mul(g, s);
    const V32 slope = hn::MulAdd(silu, hn::Sub(hn::Set(d, 1.0f), s), s);
    store(hn::Mul(hn::Mul(gradient, u), slope), d, d_gate + f, count);
    store(hn::Mul(gradient, silu), d, d_up + f, count);
    if (a != nullptr) store(hn::Mul(silu, u), d, a + f, count);
  });
}

void swiglu_forward_f32(float* a, const float* gate, const float* up, int64_t F) { forward_row(a, gate, up, F); }
void swiglu_forward_bf16(c10::BFloat16* a, const c10::BFloat16* gate, const c10::BFloat16* up, int64_t F) {
  forward_row(a, gate, up, F);
}
void swiglu_backward_f32(float* d_gate, float* d_up, float* a, const float* da, const float* gate, const float* up,
                         int64_t F) {
  backward_row(d_gate, d_up, a, da, gate, up, F);
}
void swiglu_backward_bf16(c10::BFloat16* d_gate, c10::BFloat16* d_up, c10::BFloat16* a, const c10::BFloat16* da,
                          const c10::BFloat16* gate, const c10::BFloat16* up, int64_t F) {
  backward_row(d_gate, d_up, a, da, gate, up, F);
}

}  // namespace hearth::ops::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace hearth::ops {

HWY_EXPORT(swiglu_forward_f32);
HWY_EXPORT(swiglu_forward_bf16);
HWY_EXPORT(swiglu_backward_f32);
HWY_EXPORT(swiglu_backward_bf16);

namespace {

auto forward_kernel(float) { return HWY_DYNAMIC_DISPATCH(swiglu_forward_f32); }
auto forward_kernel(c10::BFloat16) { return HWY_DYNAMIC_DISPATCH(swiglu_forward_bf16); }
auto backward_kernel(float) { return HWY_DYNAMIC_DISPATCH(swiglu_backward_f32); }
auto backward_kernel(c10::BFloat16) { return HWY_DYNAMIC_DISPATCH(swiglu_backward_bf16); }

template <class T>
void forward(const Matrix<T>& a, const Matrix<const T>& gate_up) {
  const int64_t F = a.cols;
  const auto kernel = forward_kernel(T());
  parallel(a.rows, F, [&](int64_t begin, int64_t end) {
    for (int64_t t = begin; t < end; ++t) kernel(a.row(t), gate_up.row(t), gate_up.row(t) + F, F);
  });
}

void forward(const Matrix<double>& a, const Matrix<const double>& gate_up) { reference::swiglu_forward(a, gate_up); }

template <class T>
void backward(const Matrix<T>& dgate_up, const Matrix<const T>& da, const Matrix<const T>& gate_up,
              const Matrix<T>& a) {
  const int64_t F = da.cols;
  const auto kernel = backward_kernel(T());
  parallel(da.rows, F, [&](int64_t begin, int64_t end) {
    for (int64_t t = begin; t < end; ++t)
      kernel(dgate_up.row(t), dgate_up.row(t) + F, a.row(t), da.row(t), gate_up.row(t), gate_up.row(t) + F, F);
  });
}

void backward(const Matrix<double>& dgate_up, const Matrix<const double>& da, const Matrix<const double>& gate_up,
              const Matrix<double>& a) {
  reference::swiglu_backward(dgate_up, da, gate_up, a);
}

}  // namespace

void swiglu_forward(const at::Tensor& a_TF, const at::Tensor& gate_up_T2F) {
  const trace::SpanScope span(trace::SpanKind::kOp, "swiglu_forward");
  const int64_t T = a_TF.size(0), F = a_TF.size(1);
  if (on_gpu(a_TF)) return gpu::swiglu_forward(a_TF, gate_up_T2F);
  with_element_type(a_TF, [&](auto zero) {
    using Value = decltype(zero);
    forward(matrix<Value>(a_TF, T, F), matrix<const Value>(gate_up_T2F, T, 2 * F));
  });
}

void swiglu_backward(const at::Tensor& dgate_up_T2F, const at::Tensor& da_TF, const at::Tensor& gate_up_T2F,
                     const at::Tensor& a_TF) {
  const trace::SpanScope span(trace::SpanKind::kOp, "swiglu_backward");
  const int64_t T = da_TF.size(0), F = da_TF.size(1);
  if (on_gpu(da_TF)) return gpu::swiglu_backward(dgate_up_T2F, da_TF, gate_up_T2F, a_TF);
  with_element_type(da_TF, [&](auto zero) {
    using Value = decltype(zero);
    const auto a = a_TF.defined() ? matrix<Value>(a_TF, T, F) : Matrix<Value>{};
    backward(matrix<Value>(dgate_up_T2F, T, 2 * F), matrix<const Value>(da_TF, T, F),
             matrix<const Value>(gate_up_T2F, T, 2 * F), a);
  });
}

}  // namespace hearth::ops
#endif
