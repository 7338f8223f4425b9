// SPDX-License-Identifier: Apache-2.0
#include "kernels/entries.h"
#include "kernels/launch.h"

namespace hearth::kernels {
namespace {

constexpr int kGroup = 8;  // elements that a thread takes at a time: one Philox block has numbers for as many

// The step's factors. As in ops/adamw.cpp: computed in double, used in float32.
struct Factors {
  float gradient_scale, decay_before, decay_after, l2, eps, correction2_sqrt, step_size;
  float one_minus_beta1, beta2, one_minus_beta2;
};

// base^n, n >= 0. Its errors add up to some units in a double's last place, far below a float32's precision. The code
// of pow would be most of each kernel.
__device__ inline double power(double base, int64_t n) {
  double result = 1;
  for (; n > 0; n /= 2, base *= base) {
    if (n % 2 != 0) result *= base;
  }
  return result;
}

__device__ inline Factors factors_of(const AdamWUpdate& a, const Decision& decision) {
  const int64_t t = decision.t - a.updates_before;
  const double correction1 = 1 - power(a.beta1, t);
  const double correction2_sqrt = sqrt(1 - power(a.beta2, t));
  const bool transformers = a.transformers_form != 0;
  return {static_cast<float>(decision.gradient_scale),
          static_cast<float>(transformers ? 1 : 1 - a.lr * a.decay),
          static_cast<float>(transformers ? a.lr * a.decay : 0),
          static_cast<float>(a.l2),
          static_cast<float>(a.eps),
          static_cast<float>(transformers ? 1 : correction2_sqrt),
          static_cast<float>((transformers ? a.lr * correction2_sqrt : a.lr) / correction1),
          static_cast<float>(1 - a.beta1),
          static_cast<float>(a.beta2),
          static_cast<float>(1 - a.beta2)};
}

// Sixteen random bits for each element of a group: block `counter` of Philox4x32-10 (base/random.h), two to a word.
struct Noise {
  uint32_t words[4];
  __device__ uint32_t operator[](int k) const { return words[k / 2] >> (k % 2 * 16) & 0xFFFFu; }
};

__device__ inline Noise philox(uint32_t k0, uint32_t k1, uint64_t counter) {
  uint32_t c0 = static_cast<uint32_t>(counter), c1 = static_cast<uint32_t>(counter >> 32), c2 = 0, c3 = 0;
#pragma unroll
  for (int round = 0; round < 10; ++round) {
    const uint64_t product0 = uint64_t{0xD2511F53u} * c0, product1 = uint64_t{0xCD9E8D57u} * c2;
    c0 = static_cast<uint32_t>(product1 >> 32) ^ c1 ^ k0;
    c1 = static_cast<uint32_t>(product1);
    c2 = static_cast<uint32_t>(product0 >> 32) ^ c3 ^ k1;
    c3 = static_cast<uint32_t>(product0);
    k0 += 0x9E3779B9u;
    k1 += 0xBB67AE85u;
  }
  return {{c0, c1, c2, c3}};
}

// floor(x + noise) in units of bfloat16's last place. Infinity and NaN are not rounded.
__device__ inline float cut_at_random(float x, uint32_t noise) {
  return is_finite(x) ? __uint_as_float((__float_as_uint(x) + noise) & 0xFFFF0000u) : x;
}

// The draws for an element's parameter and moments.
struct Draws {
  uint32_t parameter, exp_avg, exp_avg_sq;
};

// The noise of a group.
struct AllNoise {
  Noise parameter, exp_avg, exp_avg_sq;
  __device__ Draws operator[](int k) const { return {parameter[k], exp_avg[k], exp_avg_sq[k]}; }
};

template <class M>
__device__ inline AllNoise all_noise(const AdamWUpdate& a, uint64_t counter) {
  AllNoise noise = {philox(a.key[0], a.key[1], counter), {}, {}};
  if (std::is_same_v<M, BFloat16>) {
    noise.exp_avg = philox(a.key[0], a.key[1] ^ 1, counter);
    noise.exp_avg_sq = philox(a.key[0], a.key[1] ^ 2, counter);
  }
  return noise;
}

// The value as T stores it.
template <bool kStochastic, class T>
__device__ inline T stored(float x, uint32_t noise) {
  return rounded<T>(kStochastic && std::is_same_v<T, BFloat16> ? cut_at_random(x, noise) : x);
}

// One element. Products are fused exactly where ops/adamw.cpp or g++ fuses them; the GPU's compilers have options
// against further fusion. The bits are a CPU's.
template <bool kStochastic, class P, class M>
__device__ inline void update(const Factors& f, Draws noise, P& parameter, float gradient, M& exp_avg, M& exp_avg_sq) {
  const float before = to_float(parameter), m_before = to_float(exp_avg);
  float g = gradient * f.gradient_scale;
  if (f.l2 != 0) g = fmaf(f.l2, before, g);
  const float m = fmaf(f.one_minus_beta1, g - m_before, m_before);
  const float v = fmaf(to_float(exp_avg_sq), f.beta2, f.one_minus_beta2 * g * g);
  exp_avg = stored<kStochastic, M>(m, noise.exp_avg);
  exp_avg_sq = stored<kStochastic, M>(v, noise.exp_avg_sq);
  float p = fmaf(before, f.decay_before, -(f.step_size * m / (sqrtf(v) / f.correction2_sqrt + f.eps)));
  if (f.decay_after != 0) p = fmaf(-f.decay_after, p, p);
  parameter = stored<kStochastic, P>(p, noise.parameter);
}

// Groups begin at blocks of Philox: kGroup * group - shift is the first element's index. Whole aligned groups are
// accessed in packs, all others element by element. `copy`: null without one, and always with P = BFloat16.
template <class P, class M, bool kStochastic, bool kPacks>
__global__ void __launch_bounds__(kThreads)
    adamw_kernel(AdamWUpdate a, const Decision* decision, P* parameter, const float* gradient, M* exp_avg,
                 M* exp_avg_sq, BFloat16* copy, int64_t n) {
  if (decision->apply == 0) return;
  __shared__ Factors shared;
  if (threadIdx.x == 0) shared = factors_of(a, *decision);
  __syncthreads();
  const Factors f = shared;
  const int64_t shift = kStochastic ? static_cast<int64_t>(a.first % kGroup) : 0, groups = ceil_div(n + shift, kGroup);
  const int64_t step = static_cast<int64_t>(gridDim.x) * kThreads;
  for (int64_t group = static_cast<int64_t>(blockIdx.x) * kThreads + threadIdx.x; group < groups; group += step) {
    const int64_t i = group * kGroup - shift;
    AllNoise noise = {};
    if (kStochastic) noise = all_noise<M>(a, a.first / kGroup + static_cast<uint64_t>(group));
    if (kPacks && i + kGroup <= n) {
      Pack<P, kGroup> p = load<kGroup>(parameter + i);
      Pack<M, kGroup> m = load<kGroup>(exp_avg + i), v = load<kGroup>(exp_avg_sq + i);
      const Pack<float, kGroup> g = load<kGroup>(gradient + i);
#pragma unroll
      for (int k = 0; k < kGroup; ++k) {
        update<kStochastic>(f, noise[k], p.values[k], g.values[k], m.values[k], v.values[k]);
      }
      store<kGroup>(parameter + i, p);
      store<kGroup>(exp_avg + i, m);
      store<kGroup>(exp_avg_sq + i, v);
      if (std::is_same_v<P, float> && copy != nullptr) {
        Pack<BFloat16, kGroup> narrow;
#pragma unroll
        for (int k = 0; k < kGroup; ++k) narrow.set(k, p[k]);
        store<kGroup>(copy + i, narrow);
      }
      continue;
    }
#pragma unroll
    for (int k = 0; k < kGroup; ++k) {
      const int64_t e = i + k;
      if (e < 0 || e >= n) continue;
      update<kStochastic>(f, noise[k], parameter[e], gradient[e], exp_avg[e], exp_avg_sq[e]);
      if (std::is_same_v<P, float> && copy != nullptr) copy[e] = rounded<BFloat16>(to_float(parameter[e]));
    }
  }
}

}  // namespace

int adamw(void* stream, AdamWUpdate step, const Decision* decision, void* parameter, const float* gradient,
          void* exp_avg, void* exp_avg_sq, void* copy, int64_t n) {
  const bool stochastic = step.stochastic != 0;
  const int64_t groups = ceil_div(n + kGroup, kGroup), most = ceil_div(groups, kThreads);
  const int64_t blocks = n == 0 ? 0 : most < kFullGrid ? most : kFullGrid;
  return with_type(step.parameter, [&](auto p) {
    return with_type(step.moments, [&](auto m) {
      using P = decltype(p);
      using M = decltype(m);
      auto* parameters = static_cast<P*>(parameter);
      auto *first = static_cast<M*>(exp_avg), *second = static_cast<M*>(exp_avg_sq);
      auto* copies = static_cast<BFloat16*>(copy);
      const bool packs = is_aligned(parameters) && is_aligned(gradient) && is_aligned(first) && is_aligned(second) &&
                         (copies == nullptr || is_aligned(copies));
      const auto run = [&](auto kernel) {
        return launch(stream, kernel, blocks, kThreads, step, decision, parameters, gradient, first, second, copies, n);
      };
      if constexpr (std::is_same_v<P, BFloat16>) {
        if (stochastic) {
          return packs && step.first % kGroup == 0 ? run(&adamw_kernel<P, M, true, true>)
                                                   : run(&adamw_kernel<P, M, true, false>);
        }
      }
      return packs ? run(&adamw_kernel<P, M, false, true>) : run(&adamw_kernel<P, M, false, false>);
    });
  });
}

}  // namespace hearth::kernels
