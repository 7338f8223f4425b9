// SPDX-License-Identifier: Apache-2.0
#include "ops/norm.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "ops/norm.cpp"
#include <hwy/foreach_target.h>
//
#include <ATen/ops/empty.h>

#include <cmath>

#include "ops/access.h"
#include "ops/cpu/simd-inl.h"
#include "ops/gpu/calls.h"
#include "ops/gpu/gpu.h"
#include "ops/reference.h"
#include "trace/spans.h"

HWY_BEFORE_NAMESPACE();
namespace hearth::ops::HWY_NAMESPACE {

// The factors of elements i and on: the weights, or 1 + the weights.
template <class T>
HWY_INLINE V32 factors(F32 d, const T* weight, int64_t i, int64_t count, V32 one) {
  return hn::Add(load(d, weight + i, count), one);
}
V32 added_one(F32 d, plan::Norm norm) { return hn::Set(d, plan::adds_one(norm.type) ? 1.0f : 0.0f); }

// `mean` is null for norms without one, `weight` if it is 1.
template <class T>
void forward_row(T* y, const T* x, const T* weight, int64_t D, plan::Norm norm, float* statistic, float* mean) {
  const F32 d;
  const auto size = static_cast<float>(D), eps = static_cast<float>(norm.eps);
  float m = 0;
  if (mean != nullptr) {
    V32 total = hn::Zero(d);
    for_lanes(d, D, [&](int64_t i, int64_t count) HWY_ATTR { total = hn::Add(total, load(d, x + i, count)); });
    m = *mean = sum(d, total) / size;
  }
  const V32 vm = hn::Set(d, m);
  V32 squares = hn::Zero(d);
  for_lanes(d, D, [&](int64_t i, int64_t count) HWY_ATTR {
    const V32 v = hn::Sub(load(d, x + i, count, m), vm);
    squares = hn::MulAdd(v, v, squares);
  });
  const float mean_square = sum(d, squares) / size;
  const bool eps_outside = norm.type == plan::NormType::kRmsNormNeox;
  const float r = 1 / (eps_outside ? std::sqrt(mean_square) + eps : std::sqrt(mean_square + eps));
  *statistic = eps_outside ? std::sqrt(mean_square) : r;
  const V32 vr = hn::Set(d, r), one = added_one(d, norm);
  for_lanes(d, D, [&](int64_t i, int64_t count) HWY_ATTR {
    const V32 n = hn::Mul(hn::Sub(load(d, x + i, count), vm), vr);
    store(weight == nullptr ? n : hn::Mul(n, factors(d, weight, i, count, one)), d, y + i, count);
  });
}

template <class T>
void add_row(T* h, const T* x, const T* r, int64_t D) {
  const F32 d;
  for_lanes(d, D, [&](int64_t i, int64_t count) HWY_ATTR {
    store(hn::Add(load(d, x + i, count), load(d, r + i, count)), d, h + i, count);
  });
}

// With g = w dy:  dx = r (g - mean(g) - c n mean(g n)) (+ dx), with mean(g) only for norms that subtract m, and c as in
// ops/reference.h. partial_dw += dy n.
template <class T>
void backward_row(T* dx, float* partial_dw, const T* dy, const T* x, const T* weight, int64_t D, plan::Norm norm,
                  float statistic, const float* mean, bool accumulate) {
  const F32 d;
  const auto size = static_cast<float>(D), eps = static_cast<float>(norm.eps);
  const bool eps_outside = norm.type == plan::NormType::kRmsNormNeox;
  const float r = eps_outside ? 1 / (statistic + eps) : statistic;
  const float c = !eps_outside ? 1 : statistic > 0 ? (statistic + eps) / statistic : 0;
  const float m = mean != nullptr ? *mean : 0;
  const V32 vr = hn::Set(d, r), vm = hn::Set(d, m), one = added_one(d, norm);
  const auto weighted = [&](V32 g, int64_t i, int64_t count)
                            HWY_ATTR { return weight == nullptr ? g : hn::Mul(g, factors(d, weight, i, count, one)); };
  V32 dot = hn::Zero(d), total = hn::Zero(d);
  for_lanes(d, D, [&](int64_t i, int64_t count) HWY_ATTR {
    const V32 g = load(d, dy + i, count), n = hn::Mul(hn::Sub(load(d, x + i, count), vm), vr), gn = hn::Mul(g, n);
    if (partial_dw != nullptr) store(hn::Add(load(d, partial_dw + i, count), gn), d, partial_dw + i, count);
    dot = weight == nullptr ? hn::Add(dot, gn) : hn::MulAdd(gn, factors(d, weight, i, count, one), dot);
    if (mean != nullptr) total = hn::Add(total, weighted(g, i, count));
  });
  const V32 along = hn::Set(d, c * sum(d, dot) / size), even = hn::Set(d, sum(d, total) / size);
  for_lanes(d, D, [&](int64_t i, int64_t count) HWY_ATTR {
    const V32 n = hn::Mul(hn::Sub(load(d, x + i, count), vm), vr);
    const V32 inner = hn::NegMulAdd(n, along, hn::Sub(weighted(load(d, dy + i, count), i, count), even));
    const V32 before = accumulate ? load(d, dx + i, count) : hn::Zero(d);
    store(hn::MulAdd(vr, inner, before), d, dx + i, count);
  });
}

void norm_forward_f32(float* y, const float* x, const float* weight, int64_t D, plan::Norm norm, float* statistic,
                      float* mean) {
  forward_row(y, x, weight, D, norm, statistic, mean);
}
void norm_forward_bf16(c10::BFloat16* y, const c10::BFloat16* x, const c10::BFloat16* weight, int64_t D,
                       plan::Norm norm, float* statistic, float* mean) {
  forward_row(y, x, weight, D, norm, statistic, mean);
}
void norm_add_f32(float* h, const float* x, const float* r, int64_t D) { add_row(h, x, r, D); }
void norm_add_bf16(c10::BFloat16* h, const c10::BFloat16* x, const c10::BFloat16* r, int64_t D) { add_row(h, x, r, D); }
void norm_backward_f32(float* dx, float* partial_dw, const float* dy, const float* x, const float* weight, int64_t D,
                       plan::Norm norm, float statistic, const float* mean, bool accumulate) {
  backward_row(dx, partial_dw, dy, x, weight, D, norm, statistic, mean, accumulate);
}
void norm_backward_bf16(c10::BFloat16* dx, float* partial_dw, const c10::BFloat16* dy, const c10::BFloat16* x,
                        const c10::BFloat16* weight, int64_t D, plan::Norm norm, float statistic, const float* mean,
                        bool accumulate) {
  backward_row(dx, partial_dw, dy, x, weight, D, norm, statistic, mean, accumulate);
}

}  // namespace hearth::ops::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace hearth::ops {

HWY_EXPORT(norm_forward_f32);
HWY_EXPORT(norm_forward_bf16);
HWY_EXPORT(norm_add_f32);
HWY_EXPORT(norm_add_bf16);
HWY_EXPORT(norm_backward_f32);
HWY_EXPORT(norm_backward_bf16);

namespace {

auto forward_kernel(float) { return HWY_DYNAMIC_DISPATCH(norm_forward_f32); }
auto forward_kernel(c10::BFloat16) { return HWY_DYNAMIC_DISPATCH(norm_forward_bf16); }
auto add_kernel(float) { return HWY_DYNAMIC_DISPATCH(norm_add_f32); }
auto add_kernel(c10::BFloat16) { return HWY_DYNAMIC_DISPATCH(norm_add_bf16); }
auto backward_kernel(float) { return HWY_DYNAMIC_DISPATCH(norm_backward_f32); }
auto backward_kernel(c10::BFloat16) { return HWY_DYNAMIC_DISPATCH(norm_backward_bf16); }

int64_t rows_of(const at::Tensor& x_TD) { return x_TD.dim() == 2 ? x_TD.size(0) : x_TD.size(0) * x_TD.size(1); }

// Each row's divisor and mean; `mean` is null for norms without one.
template <class T>
struct Statistics {
  T *size, *mean;
  T* mean_of(int64_t t) const { return mean == nullptr ? nullptr : mean + t; }
};

template <class T>
Statistics<T> statistics(const plan::Norm& norm, const at::Tensor& statistics_NT, int64_t rows) {
  const bool centred = plan::is_centred(norm.type);
  T* data = flat<T>(statistics_NT, (centred ? 2 : 1) * rows);
  return {data, centred ? data + rows : nullptr};
}

template <class T>
const T* weight_of(const plan::Norm& norm, const at::Tensor& weight_D, int64_t D) {
  HEARTH_CHECK(weight_D.defined() == plan::has_weight(norm.type), "norm {} and its weight",
               static_cast<int>(norm.type));
  return weight_D.defined() ? flat<const T>(weight_D, D) : nullptr;
}

// `r_TD` undefined: y = norm(x), without h.
template <class T>
void forward(const plan::Norm& norm, const at::Tensor& h_TD, const at::Tensor& y_TD, const at::Tensor& statistics_NT,
             const at::Tensor& x_TD, const at::Tensor& r_TD, const at::Tensor& weight_D) {
  const int64_t rows = rows_of(x_TD), D = x_TD.size(-1);
  const auto x = head_rows<const T>(x_TD, rows, D);
  const auto y = head_rows<T>(y_TD, rows, D);
  const auto s = statistics<float>(norm, statistics_NT, rows);
  const T* weight = weight_of<T>(norm, weight_D, D);
  const bool adds = r_TD.defined();
  const auto h = adds ? head_rows<T>(h_TD, rows, D) : HeadRows<T>{};
  const auto r = adds ? head_rows<const T>(r_TD, rows, D) : HeadRows<const T>{};
  const auto add = add_kernel(T());
  const auto normalize = forward_kernel(T());
  parallel(rows, D, [&](int64_t begin, int64_t end) {
    for (int64_t t = begin; t < end; ++t) {  // a row of h is still in the first-level cache when it is normalised
      if (adds) add(h.row(t), x.row(t), r.row(t), D);
      normalize(y.row(t), adds ? h.row(t) : x.row(t), weight, D, norm, s.size + t, s.mean_of(t));
    }
  });
}

// Rows are cut into at most 64 blocks, each with its own partial sum of the weight's gradient. These are added in
// order. The cuts depend only on the number of rows.
template <class T>
void backward(const plan::Norm& norm, const at::Tensor& dx_TD, const at::Tensor& dweight_D, const at::Tensor& dy_TD,
              const at::Tensor& x_TD, const at::Tensor& statistics_NT, const at::Tensor& weight_D, bool accumulate) {
  const int64_t rows = rows_of(x_TD), D = x_TD.size(-1);
  const auto dx = head_rows<T>(dx_TD, rows, D);
  const auto dy = head_rows<const T>(dy_TD, rows, D), x = head_rows<const T>(x_TD, rows, D);
  const auto s = statistics<float>(norm, statistics_NT, rows);
  const T* weight = weight_of<T>(norm, weight_D, D);
  const auto kernel = backward_kernel(T());

  const int64_t block = std::max<int64_t>(16, (rows + 63) / 64), blocks = (rows + block - 1) / block;
  const bool weighted = weight != nullptr;
  const at::Tensor partial = at::empty({weighted ? blocks : 0, D}, at::TensorOptions().dtype(at::kFloat));
  float* partial_dw = weighted ? partial.mutable_data_ptr<float>() : nullptr;
  parallel(blocks, block * D, [&](int64_t begin, int64_t end) {
    for (int64_t b = begin; b < end; ++b) {
      float* dw = weighted ? partial_dw + b * D : nullptr;
      if (weighted) std::fill_n(dw, D, 0.0F);
      for (int64_t t = b * block; t < std::min(rows, (b + 1) * block); ++t) {
        kernel(dx.row(t), dw, dy.row(t), x.row(t), weight, D, norm, s.size[t], s.mean_of(t), accumulate);
      }
    }
  });
  if (!weighted) return;
  float* dweight = flat<float>(dweight_D, D);
  parallel(D, blocks, [&](int64_t begin, int64_t end) {
    std::vector<double> total(dweight + begin, dweight + end);
    for (int64_t b = 0; b < blocks; ++b) {  // row by row: memory is read in order
      const float* dw = partial_dw + b * D + begin;
      for (size_t i = 0; i < total.size(); ++i) total[i] += static_cast<double>(dw[i]);
    }
    for (size_t i = 0; i < total.size(); ++i) dweight[begin + static_cast<int64_t>(i)] = static_cast<float>(total[i]);
  });
}

template <>
void forward<double>(const plan::Norm& norm, const at::Tensor& h_TD, const at::Tensor& y_TD,
                     const at::Tensor& statistics_NT, const at::Tensor& x_TD, const at::Tensor& r_TD,
                     const at::Tensor& weight_D) {
  const int64_t rows = rows_of(x_TD), D = x_TD.size(-1);
  auto normed = head_rows<const double>(x_TD, rows, D);
  if (r_TD.defined()) {
    const auto h = head_rows<double>(h_TD, rows, D);
    reference::add(h, normed, head_rows<const double>(r_TD, rows, D));
    normed = head_rows<const double>(h_TD, rows, D);
  }
  const auto s = statistics<double>(norm, statistics_NT, rows);
  reference::norm_forward(norm, head_rows<double>(y_TD, rows, D), s.size, s.mean, normed,
                          weight_of<double>(norm, weight_D, D));
}

template <>
void backward<double>(const plan::Norm& norm, const at::Tensor& dx_TD, const at::Tensor& dweight_D,
                      const at::Tensor& dy_TD, const at::Tensor& x_TD, const at::Tensor& statistics_NT,
                      const at::Tensor& weight_D, bool accumulate) {
  const int64_t rows = rows_of(x_TD), D = x_TD.size(-1);
  const auto s = statistics<double>(norm, statistics_NT, rows);
  const double* weight = weight_of<double>(norm, weight_D, D);
  double* dweight = weight == nullptr ? nullptr : flat<double>(dweight_D, D);
  reference::norm_backward(norm, head_rows<double>(dx_TD, rows, D), dweight, head_rows<const double>(dy_TD, rows, D),
                           head_rows<const double>(x_TD, rows, D), s.size, s.mean, weight, accumulate);
}

}  // namespace

void norm_forward(const plan::Norm& norm, const at::Tensor& y_TD, const at::Tensor& statistics_NT,
                  const at::Tensor& x_TD, const at::Tensor& weight_D) {
  const trace::SpanScope span(trace::SpanKind::kOp, "norm_forward");
  if (on_gpu(x_TD)) return gpu::norm_forward(norm, {}, y_TD, statistics_NT, x_TD, {}, weight_D);
  with_element_type(x_TD,
                    [&](auto zero) { forward<decltype(zero)>(norm, {}, y_TD, statistics_NT, x_TD, {}, weight_D); });
}

void add_norm_forward(const plan::Norm& norm, const at::Tensor& h_TD, const at::Tensor& y_TD,
                      const at::Tensor& statistics_NT, const at::Tensor& x_TD, const at::Tensor& r_TD,
                      const at::Tensor& weight_D) {
  const trace::SpanScope span(trace::SpanKind::kOp, "add_norm_forward");
  if (on_gpu(x_TD)) return gpu::norm_forward(norm, h_TD, y_TD, statistics_NT, x_TD, r_TD, weight_D);
  with_element_type(x_TD,
                    [&](auto zero) { forward<decltype(zero)>(norm, h_TD, y_TD, statistics_NT, x_TD, r_TD, weight_D); });
}

void norm_backward(const plan::Norm& norm, const at::Tensor& dx_TD, const at::Tensor& dweight_D,
                   const at::Tensor& dy_TD, const at::Tensor& x_TD, const at::Tensor& statistics_NT,
                   const at::Tensor& weight_D, bool accumulate) {
  const trace::SpanScope span(trace::SpanKind::kOp, "norm_backward");
  if (on_gpu(x_TD)) return gpu::norm_backward(norm, dx_TD, dweight_D, dy_TD, x_TD, statistics_NT, weight_D, accumulate);
  with_element_type(x_TD, [&](auto zero) {
    backward<decltype(zero)>(norm, dx_TD, dweight_D, dy_TD, x_TD, statistics_NT, weight_D, accumulate);
  });
}

}  // namespace hearth::ops
#endif
