// SPDX-License-Identifier: Apache-2.0
#include "ops/adamw.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "ops/adamw.cpp"
#include <hwy/foreach_target.h>
//
#include <array>
#include <cmath>
#include <cstddef>
#include <span>

#include "ops/access.h"
#include "ops/cpu/philox-inl.h"
#include "ops/cpu/simd-inl.h"
#include "ops/gpu/calls.h"
#include "ops/gpu/gpu.h"
#include "ops/reference.h"
#include "ops/step_decision.h"
#include "trace/spans.h"

#ifndef HEARTH_OPS_ADAMW_NOISE_
#define HEARTH_OPS_ADAMW_NOISE_
namespace hearth::ops {

constexpr int64_t kAdamWBlock = 16384;  // elements

// Sixteen random bits for each value of a block. One Philox block gives eight of them; the first may be used in part.
struct AdamWBits {
  std::array<uint64_t, kAdamWBlock / 4 + 2> of;  // each of four values, the first in the lowest bits
  int64_t begin = 0;                             // the first value's index in `of`, in units of 16 bits

  const std::byte* from(int64_t i) const { return std::as_bytes(std::span(of)).data() + 2 * (begin + i); }
};

// The random bits for rounding a block's values; unused for float32 values.
struct AdamWNoise {
  AdamWBits parameter, exp_avg, exp_avg_sq;
};

}  // namespace hearth::ops
#endif

HWY_BEFORE_NAMESPACE();
namespace hearth::ops::HWY_NAMESPACE {

// Stores floor(v + noise) in units of bfloat16's last place: noise is uniform in [0, 2^16), below the cut.
HWY_INLINE void store_stochastic(V32 v, F32 d, c10::BFloat16* p, int64_t count, const std::byte* noise) {
  const hn::RebindToUnsigned<F32> d32;
  const hn::Rebind<uint16_t, F32> d16;
  HWY_ALIGN uint16_t buffer[kLanes] = {};
  std::memcpy(buffer, noise, static_cast<size_t>(count) * sizeof(uint16_t));
  const auto sum = hn::Add(hn::BitCast(d32, v), hn::PromoteTo(d32, hn::Load(d16, buffer)));
  const auto cut = hn::And(sum, hn::Set(d32, 0xFFFF0000u));
  // Infinity and NaN are not rounded: added bits would turn one into the other.
  store(hn::IfThenElse(hn::IsFinite(v), hn::BitCast(d, cut), v), d, p, count);
}
HWY_INLINE void store_stochastic(V32 v, F32 d, float* p, int64_t count, const std::byte* /*noise*/) {
  store(v, d, p, count);
}

// `noise`: null if everything is rounded to nearest. `copy`: null without one.
template <class P, class M>
HWY_INLINE void adamw_span(P* parameter, const float* gradient, M* exp_avg, M* exp_avg_sq, c10::BFloat16* copy,
                           int64_t n, const reference::AdamWFactors& f, const AdamWNoise* noise) {
  const F32 d;
  const auto set = [d](double value) HWY_ATTR { return hn::Set(d, static_cast<float>(value)); };
  const V32 scale = set(f.gradient_scale), decay = set(f.decay_before), decay_after = set(f.decay_after);
  const V32 l2 = set(f.l2), eps = set(f.eps), correction2_sqrt = set(f.correction2_sqrt), step_size = set(f.step_size);
  const V32 one_minus_beta1 = set(1 - f.beta1), beta2 = set(f.beta2), one_minus_beta2 = set(1 - f.beta2);
  const bool has_l2 = f.l2 != 0, decays_after = f.decay_after != 0;
  for_lanes(d, n, [&](int64_t i, int64_t count) HWY_ATTR {
    const V32 before = load(d, parameter + i, count);
    V32 g = hn::Mul(load(d, gradient + i, count), scale);
    if (has_l2) g = hn::MulAdd(l2, before, g);
    V32 m = load(d, exp_avg + i, count), v = load(d, exp_avg_sq + i, count);
    m = hn::MulAdd(one_minus_beta1, hn::Sub(g, m), m);
    v = hn::MulAdd(v, beta2, hn::Mul(hn::Mul(one_minus_beta2, g), g));
    const V32 denominator = hn::Add(hn::Div(hn::Sqrt(v), correction2_sqrt), eps);
    V32 p = hn::MulSub(before, decay, hn::Div(hn::Mul(step_size, m), denominator));
    if (decays_after) p = hn::NegMulAdd(decay_after, p, p);
    if (copy != nullptr) store(p, d, copy + i, count);
    if (noise != nullptr) {
      store_stochastic(p, d, parameter + i, count, noise->parameter.from(i));
      store_stochastic(m, d, exp_avg + i, count, noise->exp_avg.from(i));
      store_stochastic(v, d, exp_avg_sq + i, count, noise->exp_avg_sq.from(i));
    } else {
      store(p, d, parameter + i, count);
      store(m, d, exp_avg + i, count);
      store(v, d, exp_avg_sq + i, count);
    }
  });
}

// Blocks first, first + 1, ... of Philox.
void philox_blocks(uint64_t* out, int64_t num_blocks, RandomKey key, uint64_t first) {
  const U64 d;
  const auto lanes = static_cast<int64_t>(hn::Lanes(d));
  int64_t i = 0;
  for (; i + lanes <= num_blocks; i += lanes) {
    VU64 lower, upper;
    philox_lanes(d, key, hn::Iota(d, first + static_cast<uint64_t>(i)), lower, upper);
    hn::StoreInterleaved2(lower, upper, d, out + 2 * i);
  }
  for (; i < num_blocks; ++i) {
    const std::array<uint32_t, 4> block = philox(key, first + static_cast<uint64_t>(i));
    out[2 * i] = block[0] | uint64_t{block[1]} << 32;
    out[2 * i + 1] = block[2] | uint64_t{block[3]} << 32;
  }
}

using F = reference::AdamWFactors;
using B16 = c10::BFloat16;
void adamw_f32_f32(float* p, const float* g, float* m, float* v, B16* copy, int64_t n, const F& f,
                   const AdamWNoise* noise) {
  adamw_span(p, g, m, v, copy, n, f, noise);
}
void adamw_f32_bf16(float* p, const float* g, B16* m, B16* v, B16* copy, int64_t n, const F& f,
                    const AdamWNoise* noise) {
  adamw_span(p, g, m, v, copy, n, f, noise);
}
void adamw_bf16_f32(B16* p, const float* g, float* m, float* v, B16* copy, int64_t n, const F& f,
                    const AdamWNoise* noise) {
  adamw_span(p, g, m, v, copy, n, f, noise);
}
void adamw_bf16_bf16(B16* p, const float* g, B16* m, B16* v, B16* copy, int64_t n, const F& f,
                     const AdamWNoise* noise) {
  adamw_span(p, g, m, v, copy, n, f, noise);
}

}  // namespace hearth::ops::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace hearth::ops {

HWY_EXPORT(adamw_f32_f32);
HWY_EXPORT(adamw_f32_bf16);
HWY_EXPORT(adamw_bf16_f32);
HWY_EXPORT(adamw_bf16_bf16);
HWY_EXPORT(philox_blocks);

namespace {

auto kernel(float, float) { return HWY_DYNAMIC_DISPATCH(adamw_f32_f32); }
auto kernel(float, c10::BFloat16) { return HWY_DYNAMIC_DISPATCH(adamw_f32_bf16); }
auto kernel(c10::BFloat16, float) { return HWY_DYNAMIC_DISPATCH(adamw_bf16_f32); }
auto kernel(c10::BFloat16, c10::BFloat16) { return HWY_DYNAMIC_DISPATCH(adamw_bf16_bf16); }

reference::AdamWFactors factors(const AdamWStep& step, const kernels::Decision& decision) {
  const double t = static_cast<double>(decision.t - step.updates_before);
  const double correction1 = 1 - std::pow(step.beta1, t), correction2_sqrt = std::sqrt(1 - std::pow(step.beta2, t));
  const bool transformers = step.form == AdamForm::kTransformers;
  return {.decay_before = transformers ? 1 : 1 - step.lr * step.decay,
          .decay_after = transformers ? step.lr * step.decay : 0,
          .l2 = step.l2,
          .beta1 = step.beta1,
          .beta2 = step.beta2,
          .eps = step.eps,
          .step_size = (transformers ? step.lr * correction2_sqrt : step.lr) / correction1,
          .correction2_sqrt = transformers ? 1 : correction2_sqrt,
          .gradient_scale = decision.gradient_scale};
}

// Fills in the bits of elements [begin, begin + n) of the stream.
void fill_bits(AdamWBits& bits, RandomKey key, uint64_t begin, int64_t n) {
  bits.begin = static_cast<int64_t>(begin % 8);
  HWY_DYNAMIC_DISPATCH(philox_blocks)(bits.of.data(), (bits.begin + n + 7) / 8, key, begin / 8);
}

void fill_noise(AdamWNoise& noise, const StochasticRounding& rounding, uint64_t begin, int64_t n, bool of_moments) {
  const auto [first, second] = rounding.key.word;
  begin += rounding.first;
  fill_bits(noise.parameter, rounding.key, begin, n);
  if (!of_moments) return;
  fill_bits(noise.exp_avg, {{first, second ^ 1}}, begin, n);
  fill_bits(noise.exp_avg_sq, {{first, second ^ 2}}, begin, n);
}

template <class P, class M>
void update(const at::Tensor& parameter_N, const at::Tensor& gradient_N, const at::Tensor& exp_avg_N,
            const at::Tensor& exp_avg_sq_N, const reference::AdamWFactors& f,
            const std::optional<StochasticRounding>& rounding, const at::Tensor& copy_N) {
  constexpr int64_t kBlock = kAdamWBlock;
  const int64_t N = parameter_N.numel();
  P* parameter = flat<P>(parameter_N, N);
  const float* gradient = flat<const float>(gradient_N, N);
  M *exp_avg = flat<M>(exp_avg_N, N), *exp_avg_sq = flat<M>(exp_avg_sq_N, N);
  c10::BFloat16* const copy = copy_N.defined() ? flat<c10::BFloat16>(copy_N, N) : nullptr;
  const auto run = kernel(P(), M());
  parallel((N + kBlock - 1) / kBlock, kBlock, [&](int64_t first, int64_t last) {
    AdamWNoise noise;
    for (int64_t i = first * kBlock; i < std::min(N, last * kBlock); i += kBlock) {
      const int64_t n = std::min(kBlock, N - i);
      if (rounding) fill_noise(noise, *rounding, static_cast<uint64_t>(i), n, std::is_same_v<M, c10::BFloat16>);
      run(parameter + i, gradient + i, exp_avg + i, exp_avg_sq + i, copy == nullptr ? nullptr : copy + i, n, f,
          rounding ? &noise : nullptr);
    }
  });
}

}  // namespace

void adamw(const at::Tensor& parameter_N, const at::Tensor& gradient_N, const at::Tensor& exp_avg_N,
           const at::Tensor& exp_avg_sq_N, const AdamWStep& step, const at::Tensor& decision,
           const std::optional<StochasticRounding>& rounding, const at::Tensor& copy_N) {
  const trace::SpanScope span(trace::SpanKind::kOp, "adamw");
  HEARTH_CHECK(!rounding || parameter_N.scalar_type() == at::kBFloat16, "only bfloat16 is rounded");
  HEARTH_CHECK(!copy_N.defined() || (is_float32(parameter_N) && copy_N.scalar_type() == at::kBFloat16),
               "a copy is bfloat16 of float32");
  if (on_gpu(parameter_N))
    return gpu::adamw(parameter_N, gradient_N, exp_avg_N, exp_avg_sq_N, step, decision, rounding, copy_N);
  const kernels::Decision decided = read_decision(decision);
  if (decided.apply == 0) return;
  HEARTH_CHECK(decided.t > step.updates_before, "update {} of moments that began after update {}", decided.t,
               step.updates_before);
  const auto f = factors(step, decided);
  if (is_float64(parameter_N)) {
    const int64_t N = parameter_N.numel();
    reference::adamw(flat<double>(parameter_N, N), flat<const double>(gradient_N, N), flat<double>(exp_avg_N, N),
                     flat<double>(exp_avg_sq_N, N), N, f);
    return;
  }
  const bool rounded_moments = exp_avg_N.scalar_type() == at::kBFloat16;
  const auto with = [&](auto parameter, auto moment) {
    update<decltype(parameter), decltype(moment)>(parameter_N, gradient_N, exp_avg_N, exp_avg_sq_N, f, rounding,
                                                  copy_N);
  };
  if (is_float32(parameter_N)) {
    rounded_moments ? with(float(), c10::BFloat16()) : with(float(), float());
  } else {
    rounded_moments ? with(c10::BFloat16(), c10::BFloat16()) : with(c10::BFloat16(), float());
  }
}

}  // namespace hearth::ops
#endif
