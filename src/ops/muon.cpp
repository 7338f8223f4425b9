// SPDX-License-Identifier: Apache-2.0
#include "ops/muon.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "ops/muon.cpp"
#include <hwy/foreach_target.h>
//
#include <cmath>
#include <utility>

#include "ops/access.h"
#include "ops/cpu/simd-inl.h"
#include "ops/matmul.h"
#include "ops/reduce.h"
#include "ops/reference.h"
#include "ops/step_decision.h"
#include "ops/tensor.h"
#include "trace/spans.h"

HWY_BEFORE_NAMESPACE();
namespace hearth::ops::HWY_NAMESPACE {

using B16 = c10::BFloat16;
using Momentum = reference::MuonMomentumFactors;

template <class M>
HWY_INLINE void momentum_span(float* update, M* momentum, const float* gradient, int64_t n, const Momentum& f) {
  const F32 d;
  const V32 scale = hn::Set(d, static_cast<float>(f.gradient_scale));
  const V32 share = hn::Set(d, static_cast<float>(f.one_minus_momentum));
  for_lanes(d, n, [&](int64_t i, int64_t count) HWY_ATTR {
    const V32 g = hn::Mul(load(d, gradient + i, count), scale), before = load(d, momentum + i, count);
    const V32 mean = hn::MulAdd(share, hn::Sub(g, before), before);
    store(f.nesterov ? hn::MulAdd(share, hn::Sub(g, mean), mean) : mean, d, update + i, count);
    store(mean, d, momentum + i, count);
  });
}

// y = a x + b y
template <class Y, class X>
HWY_INLINE void combine_span(Y* y, const X* x, int64_t n, double a, double b) {
  const F32 d;
  const V32 of_x = hn::Set(d, static_cast<float>(a)), of_y = hn::Set(d, static_cast<float>(b));
  for_lanes(d, n, [&](int64_t i, int64_t count) HWY_ATTR {
    const V32 before = hn::Mul(of_y, load(d, y + i, count));
    store(hn::MulAdd(of_x, load(d, x + i, count), before), d, y + i, count);
  });
}

void momentum_f32(float* update, float* momentum, const float* gradient, int64_t n, const Momentum& f) {
  momentum_span(update, momentum, gradient, n, f);
}
void momentum_bf16(float* update, B16* momentum, const float* gradient, int64_t n, const Momentum& f) {
  momentum_span(update, momentum, gradient, n, f);
}
void combine_f32(float* y, const float* x, int64_t n, double a, double b) { combine_span(y, x, n, a, b); }
void combine_bf16(B16* y, const B16* x, int64_t n, double a, double b) { combine_span(y, x, n, a, b); }
void combine_bf16_f32(B16* y, const float* x, int64_t n, double a, double b) { combine_span(y, x, n, a, b); }

}  // namespace hearth::ops::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace hearth::ops {

HWY_EXPORT(momentum_f32);
HWY_EXPORT(momentum_bf16);
HWY_EXPORT(combine_f32);
HWY_EXPORT(combine_bf16);
HWY_EXPORT(combine_bf16_f32);

namespace {

// The polynomial of torch.optim.Muon: the steepest at zero that keeps singular values between 0.68 and 1.2.
constexpr double kA = 3.4445, kB = -4.775, kC = 2.0315;
constexpr double kSmallestNorm = 1e-7;

auto momentum_kernel(float) { return HWY_DYNAMIC_DISPATCH(momentum_f32); }
auto momentum_kernel(c10::BFloat16) { return HWY_DYNAMIC_DISPATCH(momentum_bf16); }
auto combine_kernel(float, float) { return HWY_DYNAMIC_DISPATCH(combine_f32); }
auto combine_kernel(c10::BFloat16, c10::BFloat16) { return HWY_DYNAMIC_DISPATCH(combine_bf16); }
auto combine_kernel(c10::BFloat16, float) { return HWY_DYNAMIC_DISPATCH(combine_bf16_f32); }

template <class Y, class X>
void combine_as(const at::Tensor& y, const at::Tensor& x, double a, double b) {
  const int64_t n = y.numel();
  Y* sum = flat<Y>(y, n);
  const X* summand = flat<const X>(x, n);
  const auto run = combine_kernel(Y(), X());
  parallel(n, 1, [&](int64_t begin, int64_t end) { run(sum + begin, summand + begin, end - begin, a, b); });
}

// y = a x + b y, contiguous; x has y's type, or is float32 with a bfloat16 y.
void combine(const at::Tensor& y, const at::Tensor& x, double a, double b) {
  if (is_float64(y)) {
    reference::combine(flat<double>(y, y.numel()), flat<const double>(x, y.numel()), y.numel(), a, b);
  } else if (is_float32(y)) {
    combine_as<float, float>(y, x, a, b);
  } else {
    is_float32(x) ? combine_as<c10::BFloat16, float>(y, x, a, b) : combine_as<c10::BFloat16, c10::BFloat16>(y, x, a, b);
  }
}

template <class M>
void update_momentum(const at::Tensor& update_N, const at::Tensor& momentum_N, const at::Tensor& gradient_N,
                     const reference::MuonMomentumFactors& f) {
  const int64_t N = update_N.numel();
  float* update = flat<float>(update_N, N);
  M* momentum = flat<M>(momentum_N, N);
  const float* gradient = flat<const float>(gradient_N, N);
  const auto run = momentum_kernel(M());
  parallel(N, 1, [&](int64_t begin, int64_t end) {
    run(update + begin, momentum + begin, gradient + begin, end - begin, f);
  });
}

}  // namespace

void muon_momentum(const at::Tensor& update_N, const at::Tensor& momentum_N, const at::Tensor& gradient_N,
                   const MuonMomentum& settings, const at::Tensor& decision) {
  const trace::SpanScope span(trace::SpanKind::kOp, "muon_momentum");
  const kernels::Decision decided = read_decision(decision);
  if (decided.apply == 0) return;
  const reference::MuonMomentumFactors f{.gradient_scale = decided.gradient_scale,
                                         .one_minus_momentum = 1 - settings.momentum,
                                         .nesterov = settings.nesterov};
  const int64_t N = update_N.numel();
  if (is_float64(update_N)) {
    reference::muon_momentum(flat<double>(update_N, N), flat<double>(momentum_N, N), flat<const double>(gradient_N, N),
                             N, f);
  } else if (is_float32(momentum_N)) {
    update_momentum<float>(update_N, momentum_N, gradient_N, f);
  } else {
    update_momentum<c10::BFloat16>(update_N, momentum_N, gradient_N, f);
  }
}

void orthogonalize(const at::Tensor& update_MN, int64_t steps, const at::Tensor& decision,
                   const NewtonSchulzScratch& scratch) {
  const trace::SpanScope span(trace::SpanKind::kOp, "orthogonalize");
  if (read_decision(decision).apply == 0) return;
  const at::Tensor sum_1 = zeros({1}, DType::kFloat64);
  add_sum_of_squares(sum_1, update_MN);
  update_MN.mul_(1 / std::max(std::sqrt(*flat<const double>(sum_1, 1)), kSmallestNorm));

  // The products of the longer side are sums, not results: so the results are as small as they can be.
  const at::Tensor wide_RC = update_MN.size(0) > update_MN.size(1) ? update_MN.t() : update_MN;
  const int64_t R = wide_RC.size(0), C = wide_RC.size(1);
  at::Tensor x_RC = view_as(scratch.x, 0, {R, C}), next_RC = view_as(scratch.next, 0, {R, C});
  const at::Tensor gram_RR = view_as(scratch.gram, 0, {R, R}), polynomial_RR = view_as(scratch.polynomial, 0, {R, R});
  copy_(x_RC, wide_RC);
  for (int64_t step = 0; step < steps; ++step) {
    matmul(gram_RR, x_RC, x_RC);
    matmul(polynomial_RR, gram_RR, gram_RR);  // a Gram matrix is its own transpose
    combine(polynomial_RR, gram_RR, kB, kC);
    matmul_input_gradient(next_RC, polynomial_RR, x_RC, /*accumulate=*/false);
    combine(next_RC, x_RC, kA, 1);
    std::swap(x_RC, next_RC);
  }
  copy_(wide_RC, x_RC);
}

void muon_apply(const at::Tensor& parameter_N, const at::Tensor& update_N, double step_size, double decay,
                const at::Tensor& decision) {
  const trace::SpanScope span(trace::SpanKind::kOp, "muon_apply");
  if (read_decision(decision).apply == 0) return;
  combine(parameter_N, update_N, -step_size, 1 - decay);
}

}  // namespace hearth::ops
#endif
