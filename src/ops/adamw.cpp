#include "ops/adamw.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "ops/adamw.cpp"
#include <hwy/foreach_target.h>
//
#include <cmath>

#include "ops/access.h"
#include "ops/reference.h"
#include "ops/simd-inl.h"

HWY_BEFORE_NAMESPACE();
namespace hearth::ops::HWY_NAMESPACE {

void adamw_span(float* parameter, const float* gradient, float* exp_avg, float* exp_avg_sq, int64_t n,
                const reference::AdamWFactors& f) {
  const F32 d;
  const auto set = [d](double value) HWY_ATTR { return hn::Set(d, static_cast<float>(value)); };
  const V32 scale = set(f.gradient_scale), decay = set(f.decay), eps = set(f.eps);
  const V32 one_minus_beta1 = set(1 - f.beta1), beta2 = set(f.beta2), one_minus_beta2 = set(1 - f.beta2);
  const V32 correction2_sqrt = set(f.correction2_sqrt), step_size = set(f.step_size);
  for_lanes(d, n, [&](int64_t i, int64_t count) HWY_ATTR {
    const V32 g = hn::Mul(load(d, gradient + i, count), scale);
    const V32 p = hn::Mul(load(d, parameter + i, count), decay);
    V32 m = load(d, exp_avg + i, count), v = load(d, exp_avg_sq + i, count);
    m = hn::MulAdd(one_minus_beta1, hn::Sub(g, m), m);
    v = hn::MulAdd(v, beta2, hn::Mul(hn::Mul(one_minus_beta2, g), g));
    const V32 denominator = hn::Add(hn::Div(hn::Sqrt(v), correction2_sqrt), eps);
    store(m, d, exp_avg + i, count);
    store(v, d, exp_avg_sq + i, count);
    store(hn::Sub(p, hn::Div(hn::Mul(step_size, m), denominator)), d, parameter + i, count);
  });
}

}  // namespace hearth::ops::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace hearth::ops {

HWY_EXPORT(adamw_span);

namespace {

reference::AdamWFactors factors(const AdamWStep& step, bool decayed) {
  const double t = static_cast<double>(step.t);
  return {.decay = decayed ? 1 - step.lr * step.weight_decay : 1,
          .beta1 = step.beta1,
          .beta2 = step.beta2,
          .eps = step.eps,
          .step_size = step.lr / (1 - std::pow(step.beta1, t)),
          .correction2_sqrt = std::sqrt(1 - std::pow(step.beta2, t)),
          .gradient_scale = step.gradient_scale};
}

template <class T>
struct Buffers {
  T* parameter;
  const T* gradient;
  T* exp_avg;
  T* exp_avg_sq;
};

void update(const Buffers<float>& b, int64_t begin, int64_t end, const reference::AdamWFactors& f) {
  constexpr int64_t kBlock = 16384;
  const auto kernel = HWY_DYNAMIC_DISPATCH(adamw_span);
  parallel((end - begin + kBlock - 1) / kBlock, kBlock, [&](int64_t first, int64_t last) {
    const int64_t i = begin + first * kBlock, n = std::min(end, begin + last * kBlock) - i;
    kernel(b.parameter + i, b.gradient + i, b.exp_avg + i, b.exp_avg_sq + i, n, f);
  });
}

void update(const Buffers<double>& b, int64_t begin, int64_t end, const reference::AdamWFactors& f) {
  reference::adamw(b.parameter + begin, b.gradient + begin, b.exp_avg + begin, b.exp_avg_sq + begin, end - begin, f);
}

template <class T>
void run(const at::Tensor& parameter_N, const at::Tensor& gradient_N, const at::Tensor& exp_avg_N,
         const at::Tensor& exp_avg_sq_N, const AdamWStep& step, std::span<const Range> decayed) {
  const int64_t N = parameter_N.numel();
  HEARTH_CHECK(step.t >= 1);
  const Buffers<T> buffers{flat<T>(parameter_N, N), flat<const T>(gradient_N, N), flat<T>(exp_avg_N, N),
                           flat<T>(exp_avg_sq_N, N)};
  const auto with = factors(step, true), without = factors(step, false);
  int64_t done = 0;
  for (const Range& range : decayed) {
    HEARTH_CHECK(range.begin >= done && range.end >= range.begin && range.end <= N, "range {}..{} of {}", range.begin,
                 range.end, N);
    update(buffers, done, range.begin, without);
    update(buffers, range.begin, range.end, with);
    done = range.end;
  }
  update(buffers, done, N, without);
}

}  // namespace

void adamw(const at::Tensor& parameter_N, const at::Tensor& gradient_N, const at::Tensor& exp_avg_N,
           const at::Tensor& exp_avg_sq_N, const AdamWStep& step) {
  const Range all{0, parameter_N.numel()};
  adamw(parameter_N, gradient_N, exp_avg_N, exp_avg_sq_N, step, std::span(&all, 1));
}

void adamw(const at::Tensor& parameter_N, const at::Tensor& gradient_N, const at::Tensor& exp_avg_N,
           const at::Tensor& exp_avg_sq_N, const AdamWStep& step, std::span<const Range> decayed) {
  if (is_float32(parameter_N)) {
    run<float>(parameter_N, gradient_N, exp_avg_N, exp_avg_sq_N, step, decayed);
  } else {
    run<double>(parameter_N, gradient_N, exp_avg_N, exp_avg_sq_N, step, decayed);
  }
}

}  // namespace hearth::ops
#endif
