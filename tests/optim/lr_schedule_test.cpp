// The schedule's shape, by hand-worked values; the comparison with PyTorch's LambdaLR is in optimizer_oracle_test.
#include "optim/lr_schedule.h"

#include <gtest/gtest.h>

#include <cmath>

#include "base/error.h"

namespace hearth::optim {
namespace {

config::LrScheduler scheduler(int64_t warmup, double decay_ratio, std::string type, double floor = 0) {
  return {.warmup_steps = warmup,
          .warmup_fraction = 0,
          .decay_ratio = decay_ratio,
          .decay_type = std::move(type),
          .min_lr_factor = floor};
}

std::vector<double> rates(const config::LrScheduler& config, double lr, int64_t total) {
  const LrSchedule s = lr_schedule(config, lr, total);
  EXPECT_TRUE(s.notes.empty());
  std::vector<double> all;
  for (int64_t step = 1; step <= total; ++step) all.push_back(learning_rate(s, step));
  return all;
}

void expect_rates(const std::vector<double>& actual, const std::vector<double>& expected) {
  ASSERT_EQ(actual.size(), expected.size());
  for (size_t i = 0; i < actual.size(); ++i) EXPECT_NEAR(actual[i], expected[i], 1e-15) << "step " << i + 1;
}

TEST(LrSchedule, WarmsUpFromTheFirstStepAndDecaysToJustAboveZero) {
  expect_rates(rates(scheduler(2, -1, "linear"), 1, 6), {0.5, 1, 1, 0.75, 0.5, 0.25});
}

TEST(LrSchedule, DecaysToItsFloor) { expect_rates(rates(scheduler(0, -1, "linear", 0.5), 2, 4), {2, 1.75, 1.5, 1.25}); }

TEST(LrSchedule, FollowsACosine) {
  const double third = 0.5 * (1 + std::cos(M_PI / 3)), two_thirds = 0.5 * (1 + std::cos(2 * M_PI / 3));
  expect_rates(rates(scheduler(1, -1, "cosine"), 1, 4), {1, 1, third, two_thirds});
}

TEST(LrSchedule, StaysStableUntilTheCoolDown) {
  expect_rates(rates(scheduler(2, 0.4, "sqrt"), 1, 10),
               {0.5, 1, 1, 1, 1, 1, 1, 1 - std::sqrt(0.25), 1 - std::sqrt(0.5), 1 - std::sqrt(0.75)});
  expect_rates(rates(scheduler(0, 0, "linear"), 1, 3), {1, 1, 1});
}

TEST(LrSchedule, NeverDecaysWhenConstant) { expect_rates(rates(scheduler(1, 0.5, "constant"), 1, 4), {1, 1, 1, 1}); }

TEST(LrSchedule, TakesTheWarmupAsAFraction) {
  config::LrScheduler config = scheduler(999, -1, "constant");
  config.warmup_fraction = 0.25;
  expect_rates(rates(config, 1, 8), {0.5, 1, 1, 1, 1, 1, 1, 1});
}

// A WSD run that goes on longer is the same run as far as both are stable, and a cool-down that branches from it is
// the same schedule over a nearer end.
TEST(LrSchedule, CanBeProlongedAndBranched) {
  const LrSchedule whole = lr_schedule(scheduler(10, 0.2, "linear"), 1, 1000);
  const LrSchedule longer = lr_schedule(scheduler(10, 0.1, "linear"), 1, 2000);
  const LrSchedule branch = lr_schedule(scheduler(10, 0.5, "linear"), 1, 600);
  for (int64_t step = 1; step <= 300; ++step) {
    EXPECT_EQ(learning_rate(whole, step), learning_rate(longer, step));
    EXPECT_EQ(learning_rate(whole, step), learning_rate(branch, step));
  }
  EXPECT_EQ(learning_rate(branch, 301), 1);
  EXPECT_LT(learning_rate(branch, 302), 1);
  EXPECT_EQ(learning_rate(longer, 1801), 1);
}

TEST(LrSchedule, KeepsTheLastRatePastTheEnd) {
  const LrSchedule s = lr_schedule(scheduler(0, -1, "linear"), 1, 4);
  EXPECT_EQ(learning_rate(s, 5), learning_rate(s, 4));
}

TEST(LrSchedule, SaysWhatItHadToCut) {
  const LrSchedule short_run = lr_schedule(scheduler(200, -1, "linear"), 1, 10);
  ASSERT_EQ(short_run.notes.size(), 1u);
  EXPECT_NE(short_run.notes[0].find("warm-up of 200 steps is cut to the run's 10"), std::string::npos);
  EXPECT_EQ(learning_rate(short_run, 5), 0.5);
  const LrSchedule crowded = lr_schedule(scheduler(6, 0.8, "linear"), 1, 10);
  ASSERT_EQ(crowded.notes.size(), 1u);
  EXPECT_NE(crowded.notes[0].find("decay is cut to 4"), std::string::npos);
  EXPECT_EQ(crowded.decay_steps, 4);
}

TEST(LrSchedule, RefusesAnUnknownDecayType) {
  try {
    lr_schedule(scheduler(0, -1, "exponential"), 1, 10);
    FAIL() << "accepted";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ExitCode::kUser);
    EXPECT_EQ(error.message(), "lr_scheduler.decay_type = \"exponential\" is not known");
  }
}

}  // namespace
}  // namespace hearth::optim
