// SPDX-License-Identifier: Apache-2.0
#include "ops/adamw.h"

#include <ATen/ops/empty.h>
#include <ATen/ops/full.h>
#include <ATen/ops/ones.h>
#include <ATen/ops/rand.h>
#include <ATen/ops/tensor.h>
#include <ATen/ops/zeros.h>
#include <ATen/ops/zeros_like.h>

#include <bit>

#include "compare.h"
#include "ops/step_decision.h"

namespace hearth::ops::test {
namespace {

class AdamW : public testing::TestWithParam<std::tuple<at::ScalarType, int64_t>> {};

// torch.optim.AdamW's single-tensor update, with ATen operations in its order.
void oracle(at::Tensor& p, const at::Tensor& g, at::Tensor& m, at::Tensor& v, const AdamWStep& s, int64_t update) {
  p.mul_(1 - s.lr * s.decay);
  m.lerp_(g, 1 - s.beta1);
  v.mul_(s.beta2).addcmul_(g, g, 1 - s.beta2);
  const double t = static_cast<double>(update);
  const double correction1 = 1 - std::pow(s.beta1, t), correction2 = 1 - std::pow(s.beta2, t);
  const at::Tensor denominator = (v.sqrt() / std::sqrt(correction2)).add_(s.eps);
  p.addcdiv_(m, denominator, -s.lr / correction1);
}

TEST_P(AdamW, FiftyStepsAgreeWithTorchsUpdate) {
  const auto [type, n] = GetParam();
  at::manual_seed(1);
  at::Tensor p = random({n}, type), m = at::zeros_like(p), v = at::zeros_like(p);
  at::Tensor p2 = p.clone(), m2 = m.clone(), v2 = v.clone();
  const AdamWStep step{.lr = 3e-3, .decay = 0.1};
  for (int64_t update = 1; update <= 50; ++update) {
    const at::Tensor gradient = random({n}, type);
    adamw(p, gradient, m, v, step, decided(update, 0.5));
    oracle(p2, gradient * 0.5, m2, v2, step, update);
  }
  // Fifty rounding errors of 6e-8 at different places add up like a random walk: sqrt(50) * 6e-8.
  EXPECT_LE(relative_error(p, p2), bound(type, 4.3e-7));
  EXPECT_LE(relative_error(m, m2), bound(type, 4.3e-7));
  EXPECT_LE(relative_error(v, v2), bound(type, 4.3e-7));
}

// transformers.optimization.AdamW.step, restated.
TEST_P(AdamW, TheFormOfTransformersAddsEpsFirstAndDecaysLast) {
  const auto [type, n] = GetParam();
  at::manual_seed(1);
  at::Tensor p = random({n}, type), m = at::zeros_like(p), v = at::zeros_like(p);
  at::Tensor p2 = p.clone(), m2 = m.clone(), v2 = v.clone();
  const AdamWStep step{.lr = 3e-3, .beta2 = 0.999, .eps = 1e-2, .decay = 0.1, .form = AdamForm::kTransformers};
  for (int64_t update = 1; update <= 50; ++update) {
    const at::Tensor gradient = random({n}, type);
    adamw(p, gradient, m, v, step, decided(update));
    m2.mul_(step.beta1).add_(gradient, 1 - step.beta1);
    v2.mul_(step.beta2).addcmul_(gradient, gradient, 1 - step.beta2);
    const double t = static_cast<double>(update);
    const double rate = step.lr * std::sqrt(1 - std::pow(step.beta2, t)) / (1 - std::pow(step.beta1, t));
    p2.addcdiv_(m2, v2.sqrt().add_(step.eps), -rate);
    p2.add_(p2, -step.lr * step.decay);
  }
  EXPECT_LE(relative_error(p, p2), bound(type, 4.3e-7));
}

TEST_P(AdamW, MomentsInBfloat16AreTheUpdatesRounded) {
  const auto [type, n] = GetParam();
  if (type != at::kFloat) return;
  at::manual_seed(1);
  const at::Tensor p = random({n}, type), gradient = random({n}, type);
  const at::Tensor m = random({n}, at::kBFloat16), v = random({n}, at::kBFloat16).abs();
  const at::Tensor p2 = p.clone(), m2 = m.to(at::kFloat), v2 = v.to(at::kFloat);
  const AdamWStep step{.lr = 0.1, .decay = 0.5};
  adamw(p, gradient, m, v, step, decided(3));
  adamw(p2, gradient, m2, v2, step, decided(3));
  EXPECT_TRUE(same_bits(p, p2));
  EXPECT_TRUE(same_bits(m, m2.to(at::kBFloat16)));
  EXPECT_TRUE(same_bits(v, v2.to(at::kBFloat16)));
}

// ops/adamw.h, "Element i takes bits of Philox(key, first + i)", as a plain loop. Eight elements share a block of four
// words. A value is rounded up if its 16 bits and the cut-off bits add up to a unit in the last place.
at::Tensor rounded_by_hand(const at::Tensor& exact, RandomKey key, uint64_t first) {
  const at::Tensor rounded = at::empty(exact.sizes(), at::kBFloat16), wide = exact.to(at::kFloat);
  for (int64_t i = 0; i < exact.numel(); ++i) {
    const uint64_t element = first + static_cast<uint64_t>(i), half = element % 8;
    const uint32_t noise = philox(key, element / 8)[half / 2] >> (half % 2 == 0 ? 0 : 16) & 0xFFFF;
    const uint32_t bits = std::bit_cast<uint32_t>(wide.const_data_ptr<float>()[i]) + noise;
    rounded.mutable_data_ptr<c10::BFloat16>()[i] =
        c10::BFloat16(static_cast<uint16_t>(bits >> 16), c10::BFloat16::from_bits());
  }
  return rounded;
}

// Weights in bfloat16 equal the update of the same weights in float32, rounded: to nearest, or by the key's bits.
TEST_P(AdamW, WeightsInBfloat16AreTheUpdatesRounded) {
  const auto [type, n] = GetParam();
  if (type != at::kFloat) return;
  at::manual_seed(1);
  const at::Tensor start = random({n}, at::kBFloat16), gradient = random({n}, type);
  const AdamWStep step{.lr = 0.1, .decay = 0.5};
  const RandomKey key = random_key(3, "test");
  constexpr uint64_t kFirst = 5;
  for (const at::ScalarType moments : {at::kFloat, at::kBFloat16}) {
    const at::Tensor m0 = random({n}, moments), v0 = random({n}, moments).abs();
    const at::Tensor p32 = start.to(at::kFloat), m32 = m0.to(at::kFloat, false, true),
                     v32 = v0.to(at::kFloat, false, true);
    adamw(p32, gradient, m32, v32, step, decided(3));
    const at::Tensor p = start.clone(), m = m0.clone(), v = v0.clone();
    adamw(p, gradient, m, v, step, decided(3));
    EXPECT_TRUE(same_bits(p, p32.to(at::kBFloat16)));
    EXPECT_TRUE(same_bits(m, m32.to(moments)));
    EXPECT_TRUE(same_bits(v, v32.to(moments)));

    const at::Tensor ps = start.clone(), ms = m0.clone(), vs = v0.clone();
    adamw(ps, gradient, ms, vs, step, decided(3), StochasticRounding{key, kFirst});
    EXPECT_TRUE(same_bits(ps, rounded_by_hand(p32, key, kFirst)));
    const auto moment = [&](const at::Tensor& exact, uint32_t number) {
      return moments == at::kFloat ? exact : rounded_by_hand(exact, {{key.word[0], key.word[1] ^ number}}, kFirst);
    };
    EXPECT_TRUE(same_bits(ms, moment(m32, 1)));
    EXPECT_TRUE(same_bits(vs, moment(v32, 2)));
  }
}

TEST_P(AdamW, TheCopyIsTheParameterRoundedToNearest) {
  const auto [type, n] = GetParam();
  at::manual_seed(1);
  const at::Tensor p = random({n}, type), gradient = random({n}, type), copy = at::full({n}, 3, at::kBFloat16);
  if (type == at::kDouble) {
    EXPECT_TRUE(refused([&] { adamw(p, gradient, p, p, {}, decided(1), std::nullopt, copy); }, "a copy is bfloat16"));
    return;
  }
  for (const at::ScalarType moments : {at::kFloat, at::kBFloat16}) {
    const at::Tensor m = random({n}, moments), v = random({n}, moments).abs();
    const at::Tensor p2 = p.clone(), m2 = m.clone(), v2 = v.clone();
    const AdamWStep step{.lr = 0.1, .decay = 0.5};
    adamw(p, gradient, m, v, step, decided(3), std::nullopt, copy);
    EXPECT_TRUE(same_bits(copy, p.to(at::kBFloat16)));
    adamw(p2, gradient, m2, v2, step, decided(3));
    EXPECT_TRUE(same_bits(p, p2) && same_bits(m, m2) && same_bits(v, v2));
  }
}

INSTANTIATE_TEST_SUITE_P(Sizes, AdamW,
                         testing::Combine(testing::Values(at::kFloat, at::kDouble),
                                          testing::Values<int64_t>(7, 17001)));

TEST(AdamWEdge, BitsDoNotDependOnTheNumberOfThreads) {
  at::manual_seed(2);
  const at::Tensor start = at::randn({100001}), gradient = at::randn({100001});
  at::Tensor results[2];
  for (int threads = 1; threads <= 2; ++threads) {
    at::set_num_threads(threads);
    const at::Tensor p = start.clone(), m = at::zeros_like(p), v = at::zeros_like(p);
    adamw(p, gradient, m, v, {.lr = 0.01, .decay = 0.1}, decided(1));
    results[threads - 1] = p;
  }
  EXPECT_TRUE(same_bits(results[0], results[1]));
}

// A rank's slice of a parameter may begin and end anywhere.
TEST(AdamWEdge, BitsDoNotDependOnWhereTheElementsAreCut) {
  at::manual_seed(2);
  const at::Tensor start = at::randn({1000}), gradient = at::randn({1000});
  const at::Tensor m = at::rand({1000}), v = at::rand({1000});
  for (const double l2 : {0.0, 0.1}) {
    const AdamWStep step{.lr = 0.01, .decay = 0.1, .l2 = l2};
    const at::Tensor whole = start.clone(), m_whole = m.clone(), v_whole = v.clone();
    adamw(whole, gradient, m_whole, v_whole, step, decided(5, 0.7));
    const at::Tensor cut = start.clone(), m_cut = m.clone(), v_cut = v.clone();
    for (int64_t begin = 0, count = 1; begin < 1000; begin += count, count = 1 + count * 3 % 23) {
      const int64_t n = std::min<int64_t>(count, 1000 - begin);
      const auto part = [&](const at::Tensor& x) { return x.narrow(0, begin, n); };
      adamw(part(cut), part(gradient), part(m_cut), part(v_cut), step, decided(5, 0.7));
    }
    EXPECT_TRUE(same_bits(whole, cut) && same_bits(m_whole, m_cut) && same_bits(v_whole, v_cut));
  }
}

at::Tensor rounded_update(const at::Tensor& start, uint64_t seed, uint64_t first = 0) {
  const at::Tensor p = start.clone(), zero = at::zeros(start.sizes(), at::kFloat);
  // m = 0.1 * -1, v = 0.05 * 1: the update is lr * 1 / (1 + eps), away from zero.
  adamw(p, at::full(start.sizes(), -1.0, at::kFloat), zero, zero.clone(), {.lr = 0x1p-10, .eps = 1e-12}, decided(1),
        StochasticRounding{random_key(seed, "test"), first});
  return p;
}

// 1 + 2^-10 is an eighth of the way from 1 to the next bfloat16, 1 + 2^-7.
TEST(AdamWEdge, StochasticRoundingIsRightOnAverageAndOnlyEverTheTwoNeighbours) {
  constexpr int64_t kN = 100003;
  const at::Tensor p = rounded_update(at::ones({kN}, at::kBFloat16), 1).to(at::kDouble);
  EXPECT_TRUE(p.eq(1).logical_or(p.eq(1 + 0x1p-7)).all().item<bool>());
  const double up = p.gt(1).to(at::kDouble).mean().item<double>();
  EXPECT_NEAR(up, 0.125, 5 * std::sqrt(0.125 * 0.875 / kN));
  // Rounded to nearest, it is lost.
  const at::Tensor nearest = at::ones({kN}, at::kBFloat16), zero = at::zeros({kN}, at::kFloat);
  adamw(nearest, at::full({kN}, -1.0, at::kFloat), zero, zero.clone(), {.lr = 0x1p-10, .eps = 1e-12}, decided(1));
  EXPECT_TRUE(nearest.eq(1).all().item<bool>());
}

// v = 0.999 v + 0.001 * 0: rounding to nearest keeps v forever; stochastically it falls by a thousandth a step on
// average.
TEST(AdamWEdge, MomentsInBfloat16FallOnAverage) {
  constexpr int64_t kN = 20000, kSteps = 700;
  const at::Tensor p = at::zeros({kN}, at::kBFloat16), g = at::zeros({kN}, at::kFloat);
  const at::Tensor m = at::ones({kN}, at::kBFloat16), v = m.clone(), m_nearest = m.clone(), v_nearest = m.clone();
  const AdamWStep step{.lr = 0, .beta1 = 0.999, .beta2 = 0.999};
  for (int64_t t = 1; t <= kSteps; ++t) {
    adamw(p, g, m, v, step, decided(t), StochasticRounding{random_key(static_cast<uint64_t>(t), "test")});
    adamw(p, g, m_nearest, v_nearest, step, decided(t));
  }
  const double expected = std::pow(0.999, kSteps);  // 0.496
  for (const at::Tensor& moment : {m, v}) {
    const at::Tensor values = moment.to(at::kDouble);
    EXPECT_NEAR(values.mean().item<double>(), expected,
                6 * values.std().item<double>() / std::sqrt(static_cast<double>(kN)));
  }
  EXPECT_TRUE(v_nearest.eq(1).all().item<bool>());
  // The moments have the same updates and differ only in their random bits, which are independent.
  const at::Tensor a = m.to(at::kDouble) - expected, b = v.to(at::kDouble) - expected;
  const double correlation = ((a * b).mean() / (a.std() * b.std())).item<double>();
  EXPECT_NEAR(correlation, 0, 6 / std::sqrt(static_cast<double>(kN)));
}

TEST(AdamWEdge, StochasticRoundingDependsOnTheKeyAndTheElementAlone) {
  const at::Tensor start = at::ones({50001}, at::kBFloat16), whole = rounded_update(start, 1);
  EXPECT_TRUE(same_bits(whole, rounded_update(start, 1)));
  EXPECT_FALSE(same_bits(whole, rounded_update(start, 2)));
  for (const int64_t cut : {1, 16, 12345}) {  // as on two ranks
    EXPECT_TRUE(same_bits(whole.slice(0, 0, cut), rounded_update(start.slice(0, 0, cut), 1)));
    EXPECT_TRUE(same_bits(whole.slice(0, cut), rounded_update(start.slice(0, cut), 1, static_cast<uint64_t>(cut))));
  }
}

// Neighbours with common random bits would not average out. Both go up as often as two independent draws do.
TEST(AdamWEdge, StochasticRoundingDrawsForEveryElementByItself) {
  constexpr int64_t kN = 100003;
  const at::Tensor up = rounded_update(at::ones({kN}, at::kBFloat16), 1).gt(1).to(at::kDouble);
  for (int64_t distance = 1; distance <= 16; ++distance) {
    const int64_t n = kN - distance;
    const double both = (up.slice(0, 0, n) * up.slice(0, distance)).mean().item<double>();
    const double expected = 0.125 * 0.125;
    EXPECT_NEAR(both, expected, 6 * std::sqrt(expected * (1 - expected) / static_cast<double>(n))) << distance;
  }
}

TEST(AdamWEdge, StochasticRoundingKeepsInfinityAndNan) {
  const at::Tensor p = at::tensor({INFINITY, -INFINITY, NAN}).to(at::kBFloat16), zero = at::zeros({3});
  adamw(p, zero, zero, zero.clone(), {.lr = 0.1}, decided(1), StochasticRounding{random_key(1, "test")});
  EXPECT_TRUE(std::isinf(p[0].item<float>()) && std::isinf(p[1].item<float>()) && std::isnan(p[2].item<float>()));
}

TEST(AdamWEdge, NanPropagatesAndNothingIsNoWork) {
  const at::Tensor p = at::ones({3}), m = at::zeros({3}), v = at::zeros({3});
  adamw(p, at::tensor({0.0f, std::nanf(""), 0.0f}), m, v, {.lr = 0.1}, decided(1));
  EXPECT_TRUE(p.isnan().equal(at::tensor({0, 1, 0}).to(at::kBool)));
  const at::Tensor none = at::empty({0});
  adamw(none, none, none, none, {.lr = 0.1}, decided(1));
}

TEST(AdamWEdge, AStepThatIsHeldBackChangesNothing) {
  const at::Tensor p = at::ones({9}), m = at::zeros({9}), v = at::zeros({9}), copy = at::zeros({9}, at::kBFloat16);
  const StepDecision step({.on_nan = kernels::Reaction::kSkip, .skip_limit = 5}, at::kCPU);
  step.decide(at::zeros({2}, at::kDouble), at::full({1}, std::nan(""), at::kDouble), 0, 1);
  adamw(p, at::full({9}, std::nanf("")), m, v, {.lr = 0.1, .decay = 0.5}, step.decision(), std::nullopt, copy);
  EXPECT_TRUE(p.eq(1).all().item<bool>() && m.eq(0).all().item<bool>() && v.eq(0).all().item<bool>());
  EXPECT_TRUE(copy.eq(0).all().item<bool>());
}

}  // namespace
}  // namespace hearth::ops::test
