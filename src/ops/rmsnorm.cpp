#include "ops/rmsnorm.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "ops/rmsnorm.cpp"
#include <hwy/foreach_target.h>
//
#include <ATen/ops/empty.h>

#include <cmath>

#include "ops/access.h"
#include "ops/reference.h"
#include "ops/simd-inl.h"

HWY_BEFORE_NAMESPACE();
namespace hearth::ops::HWY_NAMESPACE {

// Returns rstd.
float rmsnorm_forward_row(float* y, const float* x, const float* weight, int64_t D, float eps) {
  const F32 d;
  V32 squares = hn::Zero(d);
  for_lanes(d, D, [&](int64_t i, int64_t count) HWY_ATTR {
    const V32 v = load(d, x + i, count);
    squares = hn::MulAdd(v, v, squares);
  });
  const float rstd = 1 / std::sqrt(sum(d, squares) / static_cast<float>(D) + eps);
  const V32 r = hn::Set(d, rstd);
  for_lanes(d, D, [&](int64_t i, int64_t count) HWY_ATTR {
    store(hn::Mul(hn::Mul(load(d, x + i, count), r), load(d, weight + i, count)), d, y + i, count);
  });
  return rstd;
}

void add_row(float* h, const float* x, const float* r, int64_t D) {
  const F32 d;
  for_lanes(d, D, [&](int64_t i, int64_t count) HWY_ATTR {
    store(hn::Add(load(d, x + i, count), load(d, r + i, count)), d, h + i, count);
  });
}

// dx = rstd * (w dy - n * mean(w dy n)) with n = x * rstd (+ dx); partial_dw += dy n.
void rmsnorm_backward_row(float* dx, float* partial_dw, const float* dy, const float* x, float rstd,
                          const float* weight, int64_t D, bool accumulate) {
  const F32 d;
  const V32 r = hn::Set(d, rstd);
  V32 dot = hn::Zero(d);
  for_lanes(d, D, [&](int64_t i, int64_t count) HWY_ATTR {
    const V32 g = load(d, dy + i, count), n = hn::Mul(load(d, x + i, count), r);
    const V32 gn = hn::Mul(g, n);
    store(hn::Add(load(d, partial_dw + i, count), gn), d, partial_dw + i, count);
    dot = hn::MulAdd(gn, load(d, weight + i, count), dot);
  });
  const V32 mean = hn::Set(d, sum(d, dot) / static_cast<float>(D));
  for_lanes(d, D, [&](int64_t i, int64_t count) HWY_ATTR {
    const V32 n = hn::Mul(load(d, x + i, count), r);
    const V32 inner = hn::NegMulAdd(n, mean, hn::Mul(load(d, dy + i, count), load(d, weight + i, count)));
    const V32 before = accumulate ? load(d, dx + i, count) : hn::Zero(d);
    store(hn::MulAdd(r, inner, before), d, dx + i, count);
  });
}

}  // namespace hearth::ops::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace hearth::ops {

HWY_EXPORT(rmsnorm_forward_row);
HWY_EXPORT(add_row);
HWY_EXPORT(rmsnorm_backward_row);

void rmsnorm_forward(const at::Tensor& y_TD, const at::Tensor& rstd_T, const at::Tensor& x_TD,
                     const at::Tensor& weight_D, double eps) {
  const int64_t T = x_TD.size(0), D = x_TD.size(1);
  if (!is_float32(x_TD)) {
    reference::rmsnorm_forward(matrix<double>(y_TD, T, D), flat<double>(rstd_T, T), matrix<const double>(x_TD, T, D),
                               flat<const double>(weight_D, D), eps);
    return;
  }
  const auto y = matrix<float>(y_TD, T, D);
  const auto x = matrix<const float>(x_TD, T, D);
  float* rstd = flat<float>(rstd_T, T);
  const float* weight = flat<const float>(weight_D, D);
  const auto norm = HWY_DYNAMIC_DISPATCH(rmsnorm_forward_row);
  parallel(T, D, [&](int64_t begin, int64_t end) {
    for (int64_t t = begin; t < end; ++t) rstd[t] = norm(y.row(t), x.row(t), weight, D, static_cast<float>(eps));
  });
}

void add_rmsnorm_forward(const at::Tensor& h_TD, const at::Tensor& y_TD, const at::Tensor& rstd_T,
                         const at::Tensor& x_TD, const at::Tensor& r_TD, const at::Tensor& weight_D, double eps) {
  const int64_t T = x_TD.size(0), D = x_TD.size(1);
  if (!is_float32(x_TD)) {
    const auto h = matrix<double>(h_TD, T, D);
    const auto x = matrix<const double>(x_TD, T, D), r = matrix<const double>(r_TD, T, D);
    for (int64_t t = 0; t < T; ++t) {
      for (int64_t d = 0; d < D; ++d) h.row(t)[d] = x.row(t)[d] + r.row(t)[d];
    }
    rmsnorm_forward(y_TD, rstd_T, h_TD, weight_D, eps);
    return;
  }
  const auto h = matrix<float>(h_TD, T, D), y = matrix<float>(y_TD, T, D);
  const auto x = matrix<const float>(x_TD, T, D), r = matrix<const float>(r_TD, T, D);
  float* rstd = flat<float>(rstd_T, T);
  const float* weight = flat<const float>(weight_D, D);
  const auto add = HWY_DYNAMIC_DISPATCH(add_row);
  const auto norm = HWY_DYNAMIC_DISPATCH(rmsnorm_forward_row);
  parallel(T, D, [&](int64_t begin, int64_t end) {
    for (int64_t t = begin; t < end; ++t) {  // a row of h is still in the first cache when it is normalised
      add(h.row(t), x.row(t), r.row(t), D);
      rstd[t] = norm(y.row(t), h.row(t), weight, D, static_cast<float>(eps));
    }
  });
}

void rmsnorm_backward(const at::Tensor& dx_TD, const at::Tensor& dweight_D, const at::Tensor& dy_TD,
                      const at::Tensor& x_TD, const at::Tensor& rstd_T, const at::Tensor& weight_D, bool accumulate) {
  const int64_t T = x_TD.size(0), D = x_TD.size(1);
  if (!is_float32(x_TD)) {
    reference::rmsnorm_backward(matrix<double>(dx_TD, T, D), flat<double>(dweight_D, D),
                                matrix<const double>(dy_TD, T, D), matrix<const double>(x_TD, T, D),
                                flat<const double>(rstd_T, T), flat<const double>(weight_D, D), accumulate);
    return;
  }
  const auto dx = matrix<float>(dx_TD, T, D);
  const auto dy = matrix<const float>(dy_TD, T, D), x = matrix<const float>(x_TD, T, D);
  float* dweight = flat<float>(dweight_D, D);
  const float* rstd = flat<const float>(rstd_T, T);
  const float* weight = flat<const float>(weight_D, D);
  const auto kernel = HWY_DYNAMIC_DISPATCH(rmsnorm_backward_row);

  // The weight's gradient: rows are cut into at most 64 blocks, each with a partial sum of its own; the partial sums
  // are added in order. The cuts depend on T alone.
  const int64_t block = std::max<int64_t>(16, (T + 63) / 64), blocks = (T + block - 1) / block;
  const at::Tensor partial = at::empty({blocks, D}, dweight_D.options());
  float* partial_dw = partial.mutable_data_ptr<float>();
  parallel(blocks, block * D, [&](int64_t begin, int64_t end) {
    for (int64_t b = begin; b < end; ++b) {
      std::fill_n(partial_dw + b * D, D, 0.0f);
      for (int64_t t = b * block; t < std::min(T, (b + 1) * block); ++t) {
        kernel(dx.row(t), partial_dw + b * D, dy.row(t), x.row(t), rstd[t], weight, D, accumulate);
      }
    }
  });
  for (int64_t d = 0; d < D; ++d) {
    double total = 0;
    for (int64_t b = 0; b < blocks; ++b) total += static_cast<double>(partial_dw[b * D + d]);
    dweight[d] = static_cast<float>(static_cast<double>(dweight[d]) + total);
  }
}

}  // namespace hearth::ops
#endif
