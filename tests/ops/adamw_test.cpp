#include "ops/adamw.h"

#include <ATen/ops/empty.h>
#include <ATen/ops/ones.h>
#include <ATen/ops/tensor.h>
#include <ATen/ops/zeros.h>
#include <ATen/ops/zeros_like.h>
#include <array>

#include "compare.h"

namespace hearth::ops::test {
namespace {

class AdamW : public testing::TestWithParam<std::tuple<at::ScalarType, int64_t>> {};

// torch.optim.AdamW's single-tensor update, with ATen operations in its order.
void oracle(at::Tensor& p, const at::Tensor& g, at::Tensor& m, at::Tensor& v, const AdamWStep& s, double decay) {
  p.mul_(1 - s.lr * decay);
  m.lerp_(g, 1 - s.beta1);
  v.mul_(s.beta2).addcmul_(g, g, 1 - s.beta2);
  const double t = static_cast<double>(s.t);
  const double correction1 = 1 - std::pow(s.beta1, t), correction2 = 1 - std::pow(s.beta2, t);
  const at::Tensor denominator = (v.sqrt() / std::sqrt(correction2)).add_(s.eps);
  p.addcdiv_(m, denominator, -s.lr / correction1);
}

TEST_P(AdamW, FiftyStepsAgreeWithTorchsUpdateWithAndWithoutDecay) {
  const auto [type, n] = GetParam();
  at::manual_seed(1);
  at::Tensor p = random({n}, type), m = at::zeros_like(p), v = at::zeros_like(p);
  at::Tensor p2 = p.clone(), m2 = m.clone(), v2 = v.clone();
  const std::array<Range, 2> decayed{Range{n / 5, n / 3}, Range{n / 2, n}};
  AdamWStep step{.lr = 3e-3, .weight_decay = 0.1, .gradient_scale = 0.5};
  for (step.t = 1; step.t <= 50; ++step.t) {
    const at::Tensor gradient = random({n}, type);
    adamw(p, gradient, m, v, step, decayed);
    const at::Tensor scaled = gradient * step.gradient_scale;
    for (const auto& [begin, end, decay] :
         {std::tuple<int64_t, int64_t, double>{0, n / 5, 0}, {n / 5, n / 3, 0.1}, {n / 3, n / 2, 0}, {n / 2, n, 0.1}}) {
      at::Tensor pr = p2.slice(0, begin, end), mr = m2.slice(0, begin, end), vr = v2.slice(0, begin, end);
      oracle(pr, scaled.slice(0, begin, end), mr, vr, step, decay);
    }
  }
  // Fifty roundings of 6e-8, here and there at different places, add up like a random walk: sqrt(50) * 6e-8.
  EXPECT_LE(relative_error(p, p2), bound(type, 4.3e-7));
  EXPECT_LE(relative_error(m, m2), bound(type, 4.3e-7));
  EXPECT_LE(relative_error(v, v2), bound(type, 4.3e-7));
}

TEST_P(AdamW, ThePlainFormDecaysEverything) {
  const auto [type, n] = GetParam();
  at::manual_seed(1);
  at::Tensor p = random({n}, type), m = at::zeros_like(p), v = at::zeros_like(p), p2 = p.clone(), m2 = m.clone(),
             v2 = v.clone();
  const at::Tensor gradient = random({n}, type);
  const AdamWStep step{.lr = 0.1, .weight_decay = 0.5};
  adamw(p, gradient, m, v, step);
  oracle(p2, gradient, m2, v2, step, 0.5);
  EXPECT_LE(relative_error(p, p2), bound(type, 2e-7));
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
    adamw(p, gradient, m, v, {.lr = 0.01, .weight_decay = 0.1});
    results[threads - 1] = p;
  }
  EXPECT_TRUE(same_bits(results[0], results[1]));
}

TEST(AdamWEdge, NanPropagatesAndNothingIsNoWork) {
  const at::Tensor p = at::ones({3}), m = at::zeros({3}), v = at::zeros({3});
  adamw(p, at::tensor({0.0f, std::nanf(""), 0.0f}), m, v, {.lr = 0.1});
  EXPECT_TRUE(p.isnan().equal(at::tensor({0, 1, 0}).to(at::kBool)));
  const at::Tensor none = at::empty({0});
  adamw(none, none, none, none, {.lr = 0.1});
}

}  // namespace
}  // namespace hearth::ops::test
