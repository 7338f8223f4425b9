// SPDX-License-Identifier: Apache-2.0
// Norms of rows of which ranks have parts.

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "ops/norm_parts.cpp"
#include <hwy/foreach_target.h>
//
#include <ATen/ops/empty.h>

#include <cmath>
#include <vector>

#include "ops/access.h"
#include "ops/cpu/simd-inl.h"
#include "ops/gpu/access.h"
#include "ops/gpu/gpu.h"
#include "ops/norm.h"
#include "trace/spans.h"

HWY_BEFORE_NAMESPACE();
namespace hearth::ops::HWY_NAMESPACE {

// The sum of a_i b_i (w_i + one) over a row; `w` null: of a_i b_i.
template <class T>
float part_dot_row(const T* a, const T* b, const T* w, float one, int64_t D) {
  const F32 d;
  const V32 v1 = hn::Set(d, one);
  V32 total = hn::Zero(d);
  for_lanes(d, D, [&](int64_t i, int64_t count) HWY_ATTR {
    const V32 ab = hn::Mul(load(d, a + i, count), load(d, b + i, count));
    total = w == nullptr ? hn::Add(total, ab) : hn::MulAdd(ab, hn::Add(load(d, w + i, count), v1), total);
  });
  return sum(d, total);
}

template <class T>
void part_scale_row(T* y, const T* x, const T* w, float one, int64_t D, float r) {
  const F32 d;
  const V32 vr = hn::Set(d, r), v1 = hn::Set(d, one);
  for_lanes(d, D, [&](int64_t i, int64_t count) HWY_ATTR {
    store(hn::Mul(hn::Mul(load(d, x + i, count), vr), hn::Add(load(d, w + i, count), v1)), d, y + i, count);
  });
}

// partial_dw += dy n with n = x r; dx = r ((w + one) dy - n along).
template <class T>
void part_gradient_row(T* dx, float* partial_dw, const T* dy, const T* x, const T* w, float one, int64_t D, float r,
                       float along) {
  const F32 d;
  const V32 vr = hn::Set(d, r), va = hn::Set(d, along), v1 = hn::Set(d, one);
  for_lanes(d, D, [&](int64_t i, int64_t count) HWY_ATTR {
    const V32 g = load(d, dy + i, count), n = hn::Mul(load(d, x + i, count), vr);
    store(hn::MulAdd(g, n, load(d, partial_dw + i, count)), d, partial_dw + i, count);
    store(hn::Mul(vr, hn::NegMulAdd(n, va, hn::Mul(g, hn::Add(load(d, w + i, count), v1)))), d, dx + i, count);
  });
}

using BF16 = c10::BFloat16;
float part_dot_f32(const float* a, const float* b, const float* w, float one, int64_t D) {
  return part_dot_row(a, b, w, one, D);
}
float part_dot_bf16(const BF16* a, const BF16* b, const BF16* w, float one, int64_t D) {
  return part_dot_row(a, b, w, one, D);
}
void part_scale_f32(float* y, const float* x, const float* w, float one, int64_t D, float r) {
  part_scale_row(y, x, w, one, D, r);
}
void part_scale_bf16(BF16* y, const BF16* x, const BF16* w, float one, int64_t D, float r) {
  part_scale_row(y, x, w, one, D, r);
}
void part_gradient_f32(float* dx, float* dw, const float* dy, const float* x, const float* w, float one, int64_t D,
                       float r, float along) {
  part_gradient_row(dx, dw, dy, x, w, one, D, r, along);
}
void part_gradient_bf16(BF16* dx, float* dw, const BF16* dy, const BF16* x, const BF16* w, float one, int64_t D,
                        float r, float along) {
  part_gradient_row(dx, dw, dy, x, w, one, D, r, along);
}

}  // namespace hearth::ops::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace hearth::ops {

HWY_EXPORT(part_dot_f32);
HWY_EXPORT(part_dot_bf16);
HWY_EXPORT(part_scale_f32);
HWY_EXPORT(part_scale_bf16);
HWY_EXPORT(part_gradient_f32);
HWY_EXPORT(part_gradient_bf16);

namespace {

auto part_dot_kernel(float) { return HWY_DYNAMIC_DISPATCH(part_dot_f32); }
auto part_dot_kernel(c10::BFloat16) { return HWY_DYNAMIC_DISPATCH(part_dot_bf16); }
auto part_scale_kernel(float) { return HWY_DYNAMIC_DISPATCH(part_scale_f32); }
auto part_scale_kernel(c10::BFloat16) { return HWY_DYNAMIC_DISPATCH(part_scale_bf16); }
auto part_gradient_kernel(float) { return HWY_DYNAMIC_DISPATCH(part_gradient_f32); }
auto part_gradient_kernel(c10::BFloat16) { return HWY_DYNAMIC_DISPATCH(part_gradient_bf16); }

// The same in float64, the reference.
double part_dot_of(const double* a, const double* b, const double* w, double one, int64_t D) {
  double total = 0;
  for (int64_t i = 0; i < D; ++i) total += a[i] * b[i] * (w == nullptr ? 1 : w[i] + one);
  return total;
}
void part_scale_of(double* y, const double* x, const double* w, double one, int64_t D, double r) {
  for (int64_t i = 0; i < D; ++i) y[i] = x[i] * r * (w[i] + one);
}
void part_gradient_of(double* dx, double* dw, const double* dy, const double* x, const double* w, double one, int64_t D,
                      double r, double along) {
  for (int64_t i = 0; i < D; ++i) {
    const double g = dy[i], n = x[i] * r;
    dw[i] += g * n;
    dx[i] = r * (g * (w[i] + one) - n * along);
  }
}
auto part_dot_kernel(double) { return &part_dot_of; }
auto part_scale_kernel(double) { return &part_scale_of; }
auto part_gradient_kernel(double) { return &part_gradient_of; }

// What a norm adds to its weights.
template <class A>
A added_one(const plan::Norm& norm) {
  return plan::adds_one(norm.type) ? A{1} : A{0};
}

template <class T>
void part_dots(const plan::Norm& norm, const at::Tensor& out_T, const at::Tensor& a_TD, const at::Tensor& b_TD,
               const at::Tensor& weight_D, const at::Tensor& scale_T) {
  using A = GradientOf<T>;
  const int64_t rows = a_TD.size(0), D = a_TD.size(1);
  const auto a = matrix<const T>(a_TD, rows, D), b = matrix<const T>(b_TD, rows, D);
  const T* weight = weight_D.defined() ? flat<const T>(weight_D, D) : nullptr;
  A* out = flat<A>(out_T, rows);
  const A* scale = scale_T.defined() ? flat<const A>(scale_T, rows) : nullptr;
  const A one = added_one<A>(norm);
  const auto dot = part_dot_kernel(T());
  parallel(rows, D, [&](int64_t begin, int64_t end) {
    for (int64_t t = begin; t < end; ++t)
      out[t] = dot(a.row(t), b.row(t), weight, one, D) * (scale == nullptr ? 1 : scale[t]);
  });
}

template <class T>
void part_forward(const plan::Norm& norm, int64_t width, const at::Tensor& y_TD, const at::Tensor& statistics_T,
                  const at::Tensor& x_TD, const at::Tensor& weight_D) {
  using A = GradientOf<T>;
  const int64_t rows = x_TD.size(0), D = x_TD.size(1);
  const auto x = matrix<const T>(x_TD, rows, D);
  const auto y = matrix<T>(y_TD, rows, D);
  const T* weight = flat<const T>(weight_D, D);
  A* statistics = flat<A>(statistics_T, rows);
  const A one = added_one<A>(norm);
  const auto scale = part_scale_kernel(T());
  parallel(rows, D, [&](int64_t begin, int64_t end) {
    for (int64_t t = begin; t < end; ++t) {
      statistics[t] = 1 / std::sqrt(statistics[t] / static_cast<A>(width) + static_cast<A>(norm.eps));
      scale(y.row(t), x.row(t), weight, one, D, statistics[t]);
    }
  });
}

// As in ops/norm.cpp: rows are cut into at most 64 blocks, whose sums of the weight's gradient are added in order.
template <class T>
void part_backward(const plan::Norm& norm, int64_t width, const at::Tensor& dx_TD, const at::Tensor& dweight_D,
                   const at::Tensor& dy_TD, const at::Tensor& x_TD, const at::Tensor& statistics_T,
                   const at::Tensor& dots_T, const at::Tensor& weight_D) {
  using A = GradientOf<T>;
  const int64_t rows = x_TD.size(0), D = x_TD.size(1);
  const auto dx = matrix<T>(dx_TD, rows, D);
  const auto dy = matrix<const T>(dy_TD, rows, D), x = matrix<const T>(x_TD, rows, D);
  const A *r = flat<const A>(statistics_T, rows), *dots = flat<const A>(dots_T, rows);
  const T* weight = flat<const T>(weight_D, D);
  const A one = added_one<A>(norm);
  const auto gradient = part_gradient_kernel(T());
  const int64_t block = std::max<int64_t>(16, (rows + 63) / 64), blocks = (rows + block - 1) / block;
  const at::Tensor partial = at::empty({blocks, D}, at::TensorOptions().dtype(c10::CppTypeToScalarType<A>::value));
  A* partial_dw = partial.mutable_data_ptr<A>();
  parallel(blocks, block * D, [&](int64_t begin, int64_t end) {
    for (int64_t b = begin; b < end; ++b) {
      A* dw = partial_dw + b * D;
      std::fill_n(dw, D, A{0});
      for (int64_t t = b * block; t < std::min(rows, (b + 1) * block); ++t)
        gradient(dx.row(t), dw, dy.row(t), x.row(t), weight, one, D, r[t], dots[t] / static_cast<A>(width));
    }
  });
  A* dweight = flat<A>(dweight_D, D);
  parallel(D, blocks, [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i) {
      auto total = static_cast<double>(dweight[i]);
      for (int64_t b = 0; b < blocks; ++b) total += static_cast<double>(partial_dw[b * D + i]);
      dweight[i] = static_cast<A>(total);
    }
  });
}

}  // namespace

void norm_part_squares(const at::Tensor& statistics_T, const at::Tensor& x_TD) {
  const trace::SpanScope span(trace::SpanKind::kOp, "norm_part_squares");
  if (on_gpu(x_TD)) {
    const auto type = gpu::type_of(x_TD);
    return check_gpu(
        gpu_kernels().norm_part_dots(gpu_stream(), type, kernels::NormKind::kRmsNorm, gpu::pointer<float>(statistics_T),
                                     gpu::rows(x_TD, type), gpu::rows(x_TD, type), nullptr, nullptr),
        "norm_part_squares");
  }
  with_element_type(x_TD, [&](auto zero) { part_dots<decltype(zero)>({}, statistics_T, x_TD, x_TD, {}, {}); });
}

void norm_part_forward(const plan::Norm& norm, int64_t width, const at::Tensor& y_TD, const at::Tensor& statistics_T,
                       const at::Tensor& x_TD, const at::Tensor& weight_D) {
  const trace::SpanScope span(trace::SpanKind::kOp, "norm_part_forward");
  if (on_gpu(x_TD)) {
    const auto type = gpu::type_of(x_TD);
    return check_gpu(gpu_kernels().norm_part_forward(gpu_stream(), type, gpu::kind_of(norm), norm.eps, width,
                                                     gpu::mutable_rows(y_TD, type), gpu::pointer<float>(statistics_T),
                                                     gpu::rows(x_TD, type), weight_D.const_data_ptr()),
                     "norm_part_forward");
  }
  with_element_type(x_TD,
                    [&](auto zero) { part_forward<decltype(zero)>(norm, width, y_TD, statistics_T, x_TD, weight_D); });
}

void norm_part_dots(const plan::Norm& norm, const at::Tensor& dots_T, const at::Tensor& dy_TD, const at::Tensor& x_TD,
                    const at::Tensor& statistics_T, const at::Tensor& weight_D) {
  const trace::SpanScope span(trace::SpanKind::kOp, "norm_part_dots");
  if (on_gpu(x_TD)) {
    const auto type = gpu::type_of(x_TD);
    return check_gpu(gpu_kernels().norm_part_dots(gpu_stream(), type, gpu::kind_of(norm), gpu::pointer<float>(dots_T),
                                                  gpu::rows(dy_TD, type), gpu::rows(x_TD, type),
                                                  weight_D.const_data_ptr(), gpu::pointer<const float>(statistics_T)),
                     "norm_part_dots");
  }
  with_element_type(x_TD,
                    [&](auto zero) { part_dots<decltype(zero)>(norm, dots_T, dy_TD, x_TD, weight_D, statistics_T); });
}

void norm_part_backward(const plan::Norm& norm, int64_t width, const at::Tensor& dx_TD, const at::Tensor& dweight_D,
                        const at::Tensor& dy_TD, const at::Tensor& x_TD, const at::Tensor& statistics_T,
                        const at::Tensor& dots_T, const at::Tensor& weight_D) {
  const trace::SpanScope span(trace::SpanKind::kOp, "norm_part_backward");
  if (on_gpu(x_TD)) {
    const auto type = gpu::type_of(x_TD);
    const kernels::ConstRows x = gpu::rows(x_TD, type);
    const at::Tensor partial = gpu::scratch<float>(gpu_kernels().norm_backward_scratch(x.rows, x.cols), x_TD);
    return check_gpu(
        gpu_kernels().norm_part_backward(gpu_stream(), type, gpu::kind_of(norm), width, gpu::mutable_rows(dx_TD, type),
                                         gpu::pointer<float>(dweight_D), gpu::rows(dy_TD, type), x,
                                         gpu::pointer<const float>(statistics_T), gpu::pointer<const float>(dots_T),
                                         weight_D.const_data_ptr(), gpu::pointer<float>(partial)),
        "norm_part_backward");
  }
  with_element_type(x_TD, [&](auto zero) {
    part_backward<decltype(zero)>(norm, width, dx_TD, dweight_D, dy_TD, x_TD, statistics_T, dots_T, weight_D);
  });
}

}  // namespace hearth::ops
#endif
