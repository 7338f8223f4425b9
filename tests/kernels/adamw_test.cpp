// SPDX-License-Identifier: Apache-2.0
#include "ops/adamw.h"
#include "ops/step_decision.h"

#include <ATen/ops/empty.h>
#include <ATen/ops/full.h>
#include <ATen/ops/ones.h>
#include <ATen/ops/tensor.h>
#include <ATen/ops/zeros.h>
#include <ATen/ops/zeros_like.h>

#include "device.h"

namespace hearth::kernels::test {
namespace {

// ops::AdamWStep in the kernel's form.
AdamWUpdate step_of(const ops::AdamWStep& s, const at::Tensor& parameter, const at::Tensor& moments,
                    const std::optional<ops::StochasticRounding>& rounding = std::nullopt) {
  AdamWUpdate step = {s.lr,
                      s.beta1,
                      s.beta2,
                      s.eps,
                      s.decay,
                      s.l2,
                      s.updates_before,
                      s.form == ops::AdamForm::kTransformers ? 1 : 0,
                      type_of(parameter),
                      type_of(moments),
                      rounding ? 1 : 0,
                      {},
                      0};
  if (rounding) {
    step.key[0] = rounding->key.word[0];
    step.key[1] = rounding->key.word[1];
    step.first = rounding->first;
  }
  return step;
}

class AdamWKernel : public DeviceTest {
 protected:
  void SetUp() override {
    DeviceTest::SetUp();
    // ops/adamw.cpp fuses products if the processor can; only then is every bit the same.
    if (!__builtin_cpu_supports("fma")) GTEST_SKIP() << "this processor has no fused multiply-add";
  }
  void adamw(const AdamWUpdate& step, const Decision& decision, const at::Tensor& p, const at::Tensor& g,
             const at::Tensor& m, const at::Tensor& v, const at::Tensor& copy = {}) {
    run(table().adamw(nullptr, step, &decision, data<void>(p), data<float>(g), data<void>(m), data<void>(v),
                      data<void>(copy), p.numel()));
  }
};

Decision decision_of(int64_t t, double gradient_scale = 1) {
  Decision decision = {};
  decision.gradient_scale = gradient_scale;
  decision.t = t;
  decision.apply = 1;
  return decision;
}

TEST_P(AdamWKernel, EveryBitIsTheCpusForAllTypesAndForms) {
  for (const at::ScalarType parameter : kTypes) {
    for (const at::ScalarType moment : kTypes) {
      for (const ops::AdamForm form : {ops::AdamForm::kTorch, ops::AdamForm::kTransformers}) {
        for (const double l2 : {0.0, 0.01}) {
          for (const int64_t offset : {0, 1}) {  // aligned, and unaligned
            SCOPED_TRACE(fmt::format("{} {} form {} l2 {} offset {}", c10::toString(parameter), c10::toString(moment),
                                     static_cast<int>(form), l2, offset));
            const int64_t n = 4099, padded = n + 13;
            const auto vector = [&](at::ScalarType type) { return random({padded + offset}, type).slice(0, offset); };
            const at::Tensor p = vector(parameter), g = vector(at::kFloat), m = vector(moment);
            const at::Tensor v = vector(moment).abs_(), start = p.clone();
            const at::Tensor p2 = p.clone(), m2 = m.clone(), v2 = v.clone();
            ops::AdamWStep s{.lr = 3e-2, .eps = 1e-6, .decay = 0.1, .l2 = l2, .form = form};
            for (int64_t t = 1; t <= 40000; t = 7 * t + 1) {
              s.updates_before = t / 2;
              const auto some = [&](const at::Tensor& x) { return x.slice(0, 0, n); };
              adamw(step_of(s, p, m), decision_of(t, 0.3), some(p), g, m, v);
              ops::adamw(some(p2), some(g), some(m2), some(v2), s, ops::decided(t, 0.3));
            }
            for (const auto& [ours, theirs] : {std::pair(p, p2), std::pair(m, m2), std::pair(v, v2)})
              EXPECT_TRUE(same_bits(ours.slice(0, 0, n), theirs.slice(0, 0, n)));
            EXPECT_TRUE(same_bits(p.slice(0, n), start.slice(0, n)));
          }
        }
      }
    }
  }
}

TEST_P(AdamWKernel, TheCopyIsTheParameterRoundedToNearest) {
  for (const at::ScalarType moment : kTypes) {
    for (const int64_t offset : {0, 1}) {
      for (const int64_t copy_offset : {0, 1, 8}) {
        for (const int64_t n : {1, 7, 8, 4099}) {
          SCOPED_TRACE(fmt::format("{} offsets {} {} n {}", c10::toString(moment), offset, copy_offset, n));
          const auto vector = [&](at::ScalarType type) { return random({n + offset}, type).slice(0, offset); };
          const at::Tensor p = vector(at::kFloat), g = vector(at::kFloat), m = vector(moment),
                           v = vector(moment).abs_();
          const at::Tensor p2 = p.clone(), m2 = m.clone(), v2 = v.clone();
          const at::Tensor around = at::full({n + copy_offset + 5}, 3, at::kBFloat16);
          const at::Tensor copy = around.slice(0, copy_offset, copy_offset + n);
          const ops::AdamWStep s{.lr = 3e-2, .decay = 0.1};
          adamw(step_of(s, p, m), decision_of(2, 0.3), p, g, m, v, copy);
          EXPECT_TRUE(same_bits(copy, p.to(at::kBFloat16)));
          EXPECT_TRUE(around.slice(0, 0, copy_offset).eq(3).all().item<bool>());
          EXPECT_TRUE(around.slice(0, copy_offset + n).eq(3).all().item<bool>());
          adamw(step_of(s, p2, m2), decision_of(2, 0.3), p2, g, m2, v2);
          EXPECT_TRUE(same_bits(p, p2) && same_bits(m, m2) && same_bits(v, v2));
        }
      }
    }
  }
}

// Halves between two bfloat16 go to the even one. Nothing else changes these values.
TEST_P(AdamWKernel, TheCopyHasInfinityNanAndTies) {
  const float tie = 0x1p-8F;
  const at::Tensor p = at::tensor(
      {INFINITY, -INFINITY, 0.0F, -0.0F, 1 + tie, 1 + 3 * tie, -1 - 3 * tie, 0x1p-130F, 0x1.fffffep127F, NAN});
  const at::Tensor zero = at::zeros_like(p), copy = at::empty(p.sizes(), at::kBFloat16);
  adamw(step_of({.lr = 0.1}, p, zero), decision_of(1), p, zero, zero.clone(), zero.clone(), copy);
  const at::Tensor expected =
      at::tensor({INFINITY, -INFINITY, 0.0F, -0.0F, 1.0F, 1 + 4 * tie, -1 - 4 * tie, 0x1p-130F, INFINITY});
  EXPECT_TRUE(same_bits(copy.slice(0, 0, 9).to(at::kFloat), expected));
  EXPECT_TRUE(std::isnan(copy[9].item<float>()));
}

TEST_P(AdamWKernel, StochasticRoundingHasTheCpusBitsWhereverTheStreamBegins) {
  for (const at::ScalarType moment : kTypes) {
    for (const uint64_t first : {uint64_t{0}, uint64_t{16}, uint64_t{3}, (uint64_t{1} << 40) + 13}) {
      SCOPED_TRACE(fmt::format("{} first {}", c10::toString(moment), first));
      const int64_t n = 2064;
      const at::Tensor p = random({n}, at::kBFloat16), g = random({n}, at::kFloat), m = random({n}, moment);
      const at::Tensor v = random({n}, moment).abs(), p2 = p.clone(), m2 = m.clone(), v2 = v.clone(), plain = p.clone();
      const ops::StochasticRounding rounding{random_key(7, "test"), first};
      const ops::AdamWStep s{.lr = 1e-3, .decay = 0.1};
      adamw(step_of(s, p, m, rounding), decision_of(2), p, g, m, v);
      ops::adamw(p2, g, m2, v2, s, ops::decided(2), rounding);
      EXPECT_TRUE(same_bits(p, p2) && same_bits(m, m2) && same_bits(v, v2));
      ops::adamw(plain, g, m2.clone(), v2.clone(), s, ops::decided(2));
      EXPECT_FALSE(same_bits(p, plain));
    }
  }
}

TEST_P(AdamWKernel, StochasticRoundingKeepsInfinityAndNan) {
  const at::Tensor p = at::tensor({INFINITY, -INFINITY, NAN}).to(at::kBFloat16), m = at::zeros({3}), v = at::zeros({3});
  const ops::AdamWStep s{.lr = 0.1};
  adamw(step_of(s, p, m, ops::StochasticRounding{random_key(1, "test")}), decision_of(1), p, at::zeros({3}), m, v);
  EXPECT_TRUE(std::isinf(p[0].item<float>()) && std::isinf(p[1].item<float>()) && std::isnan(p[2].item<float>()));
}

TEST_P(AdamWKernel, NothingChangesWhereTheDecisionSaysSo) {
  const at::Tensor p = random({100}, at::kFloat), m = random({100}, at::kFloat), v = m.abs(), g = at::full({100}, NAN);
  const at::Tensor p2 = p.clone(), m2 = m.clone(), v2 = v.clone();
  const ops::AdamWStep s{.lr = 0.1};
  const at::Tensor copy = at::full({100}, 3, at::kBFloat16);
  Decision decision = decision_of(1);
  decision.apply = 0;
  adamw(step_of(s, p, m), decision, p, g, m, v, copy);
  EXPECT_TRUE(same_bits(p, p2) && same_bits(m, m2) && same_bits(v, v2));
  EXPECT_TRUE(copy.eq(3).all().item<bool>());
  decision.apply = 1;
  adamw(step_of(s, p, m), decision, p, g, m, v);
  EXPECT_TRUE(p.isnan().all().item<bool>());
  adamw(step_of(s, p, m), decision, at::empty({0}), g, m, v);
}
HEARTH_ON_EACH_DEVICE(AdamWKernel);

}  // namespace
}  // namespace hearth::kernels::test
