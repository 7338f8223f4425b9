#include "ops/swiglu.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "ops/swiglu.cpp"
#include <hwy/foreach_target.h>
//
#include <hwy/contrib/math/math-inl.h>

#include "ops/access.h"
#include "ops/reference.h"
#include "ops/simd-inl.h"

HWY_BEFORE_NAMESPACE();
namespace hearth::ops::HWY_NAMESPACE {

// 1 / (1 + exp(-g)). Below -88 the true value is under float's smallest normal number; the clamp keeps exp finite.
// NaN turns into a number here and comes back through the product with g.
HWY_INLINE V32 sigmoid(F32 d, V32 g) {
  const V32 one = hn::Set(d, 1.0f);
  const V32 e = hn::Exp(d, hn::Min(hn::Neg(g), hn::Set(d, 88.0f)));
  return hn::Div(one, hn::Add(one, e));
}

void swiglu_forward_row(float* a, const float* gate, const float* up, int64_t F) {
  const F32 d;
  for_lanes(d, F, [&](int64_t f, int64_t count) HWY_ATTR {
    const V32 g = load(d, gate + f, count);
    store(hn::Mul(hn::Mul(g, sigmoid(d, g)), load(d, up + f, count)), d, a + f, count);
  });
}

// d_gate = da u (s + g s (1 - s)), d_up = da g s. Reads each element before it writes it: outputs may be the inputs.
void swiglu_backward_row(float* d_gate, float* d_up, float* a, const float* da, const float* gate, const float* up,
                         int64_t F) {
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

}  // namespace hearth::ops::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace hearth::ops {

HWY_EXPORT(swiglu_forward_row);
HWY_EXPORT(swiglu_backward_row);

void swiglu_forward(const at::Tensor& a_TF, const at::Tensor& gate_up_T2F) {
  const int64_t T = a_TF.size(0), F = a_TF.size(1);
  if (!is_float32(a_TF)) {
    reference::swiglu_forward(matrix<double>(a_TF, T, F), matrix<const double>(gate_up_T2F, T, 2 * F));
    return;
  }
  const auto a = matrix<float>(a_TF, T, F);
  const auto gate_up = matrix<const float>(gate_up_T2F, T, 2 * F);
  const auto kernel = HWY_DYNAMIC_DISPATCH(swiglu_forward_row);
  parallel(T, F, [&](int64_t begin, int64_t end) {
    for (int64_t t = begin; t < end; ++t) kernel(a.row(t), gate_up.row(t), gate_up.row(t) + F, F);
  });
}

void swiglu_backward(const at::Tensor& dgate_up_T2F, const at::Tensor& da_TF, const at::Tensor& gate_up_T2F,
                     const at::Tensor& a_TF) {
  const int64_t T = da_TF.size(0), F = da_TF.size(1);
  if (!is_float32(da_TF)) {
    const auto a = a_TF.defined() ? matrix<double>(a_TF, T, F) : Matrix<double>{};
    reference::swiglu_backward(matrix<double>(dgate_up_T2F, T, 2 * F), matrix<const double>(da_TF, T, F),
                               matrix<const double>(gate_up_T2F, T, 2 * F), a);
    return;
  }
  const auto dgate_up = matrix<float>(dgate_up_T2F, T, 2 * F);
  const auto da = matrix<const float>(da_TF, T, F);
  const auto gate_up = matrix<const float>(gate_up_T2F, T, 2 * F);
  const auto a = a_TF.defined() ? matrix<float>(a_TF, T, F) : Matrix<float>{};
  const auto kernel = HWY_DYNAMIC_DISPATCH(swiglu_backward_row);
  parallel(T, F, [&](int64_t begin, int64_t end) {
    for (int64_t t = begin; t < end; ++t) {
      kernel(dgate_up.row(t), dgate_up.row(t) + F, a.row(t), da.row(t), gate_up.row(t), gate_up.row(t) + F, F);
    }
  });
}

}  // namespace hearth::ops
#endif
