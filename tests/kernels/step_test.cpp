// SPDX-License-Identifier: Apache-2.0
// The end of a step: the sum of squares, the total loss, the decision.
#include <ATen/ops/tensor.h>

#include <vector>

#include "device.h"

namespace hearth::kernels::test {
namespace {

class SquaresKernel : public DeviceTest {
 protected:
  double squares(const at::Tensor& x, double before = 0) {
    const at::Tensor scratch = doubles({table().sum_of_squares_scratch(x.numel())}), out = doubles({1}) + before;
    run(table().sum_of_squares(nullptr, type_of(x), data<void>(x), x.numel(), data<double>(scratch),
                               data<double>(out)));
    return out.item<double>();
  }
};

TEST_P(SquaresKernel, TheSumIsThatOfDoublesAndAddedToWhatWasThere) {
  for (const at::ScalarType type : kTypes) {
    for (const int64_t n : {0, 1, 7, 4096, 100003}) {
      for (const int64_t offset : {0, 1}) {
        const at::Tensor x = random({n + offset}, type).slice(0, offset);
        const double expected = wide(x).square().sum().item<double>();
        EXPECT_NEAR(squares(x, 0.5), expected + 0.5, 1e-12 * expected) << n;
      }
    }
  }
}

TEST_P(SquaresKernel, NanAndInfinityComeThroughAndLargeValuesDoNotOverflow) {
  const at::Tensor x = random({1000}, at::kFloat);
  x[777] = INFINITY;
  EXPECT_TRUE(std::isinf(squares(x)));
  x[3] = NAN;
  EXPECT_TRUE(std::isnan(squares(x)));
  EXPECT_NEAR(squares(at::tensor({1e30f, 2e30f})) / 5e60, 1, 1e-6);
}

TEST_P(SquaresKernel, TwoRunsGiveTheSameBits) {
  const at::Tensor x = random({300001}, at::kFloat);
  EXPECT_EQ(squares(x), squares(x));
}
HEARTH_ON_EACH_DEVICE(SquaresKernel);

class StepKernel : public DeviceTest {
 protected:
  void SetUp() override {
    DeviceTest::SetUp();
    guard_ = {Reaction::kSkip, Reaction::kApply, 3, 4.0, {losses_, 0, 0}, {norms_, 0, 0}, 0, 0, 0};
  }
  Decision decide(double loss, double grad_squares, double max_norm = 1) {
    const double totals[2] = {loss, 100};
    Decision decision;
    run(table().decide(nullptr, &guard_, &decision, totals, &grad_squares, 0.01, max_norm));
    return decision;
  }
  double losses_[8] = {}, norms_[8] = {};
  StepGuard guard_;
};

TEST_P(StepKernel, LossesAreAddedInPairsAndThePairsInSequence) {
  // Large values that cancel: only this order of sums gives these results.
  const std::vector<double> sums = {1e17, 1, 0.5, 1, 10, 3, -1e17, 8, 7, 5, 2, 6};
  double totals[2];
  run(table().total_losses(nullptr, totals, sums.data(), 6, 2));
  EXPECT_EQ(totals[0], ((1e17 + 0.5) + (10 - 1e17)) + (7.0 + 2));
  EXPECT_EQ(totals[1], ((1 + 1.0) + (3.0 + 8)) + (5.0 + 6));
  run(table().total_losses(nullptr, totals, sums.data(), 6, 1));
  EXPECT_EQ(totals[0], ((((1e17 + 0.5) + 10) - 1e17) + 7) + 2);
  run(table().total_losses(nullptr, totals, sums.data(), 4, 4));
  EXPECT_EQ(totals[0], (1e17 + 0.5) + (10 - 1e17));
}

TEST_P(StepKernel, AnAppliedStepIsClippedAsTorchDoesItAndCounted) {
  const Decision d = decide(2.5, 16.0);
  EXPECT_EQ(d.loss, 2.5);
  EXPECT_EQ(d.z_loss, 1.0);
  EXPECT_EQ(d.grad_norm, 4);
  EXPECT_EQ(d.gradient_scale, 1 / (4 + 1e-6));
  EXPECT_TRUE(d.apply == 1 && d.t == 1 && guard_.t == 1);
  EXPECT_EQ(decide(2.5, 0.25).gradient_scale, 1);
  EXPECT_EQ(decide(2.5, 100, 0).gradient_scale, 1);
  EXPECT_EQ(guard_.t, 3);
}

TEST_P(StepKernel, NanIsSkippedUpToALimitAndThenEverythingIsHeld) {
  for (int i = 0; i < 3; ++i) {
    const Decision d = decide(i == 0 ? NAN : 1, i == 0 ? 1 : INFINITY);
    EXPECT_TRUE(d.apply == 0 && d.t == 1 && guard_.holds == 0 && guard_.skipped_in_a_row == i + 1);
  }
  EXPECT_TRUE(decide(1, NAN).apply == 0 && guard_.holds == 1);
  EXPECT_EQ(decide(1, 1).apply, 0);  // until the host releases it
  guard_.holds = 0;
  EXPECT_TRUE(decide(1, 1).apply == 1 && guard_.skipped_in_a_row == 0 && guard_.t == 1);
}

TEST_P(StepKernel, ASpikeIsMeasuredAgainstTheWindowOfAppliedSteps) {
  guard_.on_spike = Reaction::kHold;
  guard_.losses = {losses_, 4, 0};
  guard_.grad_norms = {norms_, 4, 0};
  EXPECT_EQ(decide(1, 1).loss_deviations, 0);  // half of the window is not filled yet
  EXPECT_EQ(decide(3, 1).loss_deviations, 0);
  const Decision d = decide(5, 1);  // mean 2, standard deviation 1
  EXPECT_TRUE(d.loss_deviations == 3 && d.norm_deviations == 0 && d.apply == 1);
  decide(3, 1);
  decide(1, 1);  // the ring wraps: this 1 replaces the first 1
  EXPECT_TRUE(guard_.losses.count == 5 && losses_[0] == 1 && losses_[2] == 5);
  // 1, 3, 5, 3: mean 3, variance 2.
  const Decision spike = decide(9, 1);
  EXPECT_NEAR(spike.loss_deviations, 6 / std::sqrt(2.0), 1e-12);
  EXPECT_TRUE(spike.apply == 0 && guard_.holds == 1 && guard_.losses.count == 5);
}
HEARTH_ON_EACH_DEVICE(StepKernel);

}  // namespace
}  // namespace hearth::kernels::test
