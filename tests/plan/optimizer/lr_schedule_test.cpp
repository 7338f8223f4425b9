// SPDX-License-Identifier: Apache-2.0
// The schedule's shape, by hand-worked values; the comparison with PyTorch's LambdaLR is in optimizer_oracle_test.
#include "plan/optimizer/lr_schedule.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <map>
#include <sstream>
#include <string>

#include "base/error.h"
#include "support/python.h"

namespace hearth::plan {
namespace {

using testing::HasSubstr;

config::LrScheduler scheduler(int64_t warmup, double decay_ratio, DecayType type, double floor = 0) {
  return {.warmup_steps = warmup,
          .warmup_fraction = 0,
          .decay_ratio = decay_ratio,
          .decay_type = type,
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
  expect_rates(rates(scheduler(2, -1, DecayType::kLinear), 1, 6), {0.5, 1, 1, 0.75, 0.5, 0.25});
}

TEST(LrSchedule, DecaysToItsFloor) {
  expect_rates(rates(scheduler(0, -1, DecayType::kLinear, 0.5), 2, 4), {2, 1.75, 1.5, 1.25});
}

TEST(LrSchedule, FollowsACosine) {
  const double third = 0.5 * (1 + std::cos(M_PI / 3)), two_thirds = 0.5 * (1 + std::cos(2 * M_PI / 3));
  expect_rates(rates(scheduler(1, -1, DecayType::kCosine), 1, 4), {1, 1, third, two_thirds});
}

TEST(LrSchedule, StaysStableUntilTheCoolDown) {
  expect_rates(rates(scheduler(2, 0.4, DecayType::kSqrt), 1, 10),
               {0.5, 1, 1, 1, 1, 1, 1, 1 - std::sqrt(0.25), 1 - std::sqrt(0.5), 1 - std::sqrt(0.75)});
  expect_rates(rates(scheduler(0, 0, DecayType::kLinear), 1, 3), {1, 1, 1});
}

TEST(LrSchedule, NeverDecaysWhenConstant) {
  expect_rates(rates(scheduler(1, 0.5, DecayType::kConstant), 1, 4), {1, 1, 1, 1});
}

TEST(LrSchedule, TakesTheWarmupAsAFraction) {
  config::LrScheduler config = scheduler(999, -1, DecayType::kConstant);
  config.warmup_fraction = 0.25;
  expect_rates(rates(config, 1, 8), {0.5, 1, 1, 1, 1, 1, 1, 1});
}

// A longer WSD run is the same run as long as both are in the stable phase. A cool-down that branches from it is the
// same schedule with an earlier end.
TEST(LrSchedule, CanBeProlongedAndBranched) {
  const LrSchedule whole = lr_schedule(scheduler(10, 0.2, DecayType::kLinear), 1, 1000);
  const LrSchedule longer = lr_schedule(scheduler(10, 0.1, DecayType::kLinear), 1, 2000);
  const LrSchedule branch = lr_schedule(scheduler(10, 0.5, DecayType::kLinear), 1, 600);
  for (int64_t step = 1; step <= 300; ++step) {
    EXPECT_EQ(learning_rate(whole, step), learning_rate(longer, step));
    EXPECT_EQ(learning_rate(whole, step), learning_rate(branch, step));
  }
  EXPECT_EQ(learning_rate(branch, 301), 1);
  EXPECT_LT(learning_rate(branch, 302), 1);
  EXPECT_EQ(learning_rate(longer, 1801), 1);
}

TEST(LrSchedule, KeepsTheLastRatePastTheEnd) {
  const LrSchedule s = lr_schedule(scheduler(0, -1, DecayType::kLinear), 1, 4);
  EXPECT_EQ(learning_rate(s, 5), learning_rate(s, 4));
}

TEST(LrSchedule, SaysWhatItHadToCut) {
  const LrSchedule short_run = lr_schedule(scheduler(200, -1, DecayType::kLinear), 1, 10);
  ASSERT_EQ(short_run.notes.size(), 1u);
  EXPECT_THAT(short_run.notes[0], HasSubstr("warm-up of 200 steps is cut to the run's 10"));
  EXPECT_EQ(learning_rate(short_run, 5), 0.5);
  const LrSchedule crowded = lr_schedule(scheduler(6, 0.8, DecayType::kLinear), 1, 10);
  ASSERT_EQ(crowded.notes.size(), 1u);
  EXPECT_THAT(crowded.notes[0], HasSubstr("decay is cut to 4"));
  EXPECT_EQ(crowded.decay_steps, 4);
}

// Restated from GPT-NeoX's AnnealingLR.get_lr and from the older one of Llemma's branch.
double neox_reference(bool old, DecayType type, double peak, double w, double end, double least, double n) {
  if (w > 0 && n <= w) return peak * (old ? n : std::max(1.0, n)) / w;
  const double past = n - w, span = end - w, min_lr = least * peak;
  double lr = peak;
  if (type == DecayType::kLinear) lr = old ? peak * (end - past) / end : peak * (span - past) / span;
  if (type == DecayType::kCosine && old) lr = peak * (least + (1 - least) * 0.5 * (std::cos(M_PI * past / span) + 1));
  if (type == DecayType::kCosine && !old) lr = min_lr + (peak - min_lr) / 2 * (std::cos(M_PI * past / span) + 1);
  if (type == DecayType::kExponential) lr = peak * std::exp(-0.693 * past / (old ? end : span));
  return std::max(lr, min_lr);
}

TEST(LrSchedule, FollowsBothDialectsOfGptNeox) {
  for (const ScheduleRule rule : {ScheduleRule::kNeox, ScheduleRule::kNeox2023}) {
    for (const DecayType type :
         {DecayType::kLinear, DecayType::kCosine, DecayType::kExponential, DecayType::kConstant}) {
      config::LrScheduler c = scheduler(7, -1, type);
      c.rule = rule;
      c.min_lr_factor = type == DecayType::kConstant ? 0 : 0.1;
      c.end_step = 40;
      const LrSchedule s = lr_schedule(c, 3e-4, 50);
      const bool holds = type == DecayType::kCosine;  // which the reference lets rise again
      for (int64_t step = 1; step <= (holds ? 41 : 50); ++step) {
        const auto n = static_cast<double>(step - 1);
        EXPECT_NEAR(learning_rate(s, step),
                    neox_reference(c.rule == config::ScheduleRule::kNeox2023, type, 3e-4, 7, 40, c.min_lr_factor, n),
                    1e-18)
            << name_of(rule) << " " << name_of(type) << " " << step;
      }
      if (holds) {
        EXPECT_EQ(learning_rate(s, 50), learning_rate(s, 41)) << name_of(rule) << " " << name_of(type);
      }
    }
  }
  config::LrScheduler old = scheduler(7, -1, DecayType::kLinear);
  old.rule = config::ScheduleRule::kNeox2023;
  EXPECT_EQ(learning_rate(lr_schedule(old, 3e-4, 50), 1), 0) << "its first update changes nothing";
}

// torchtitan's optimizer.py of 2024, and its lr_scheduler.py from 27 March to 11 June 2025.
TEST(LrSchedule, FollowsTorchtitansOlderRates) {
  for (const int64_t warmup : {0, 1, 5, 19, 20, 30}) {
    config::LrScheduler c = scheduler(warmup, -1, DecayType::kLinear);
    c.rule = ScheduleRule::kTorchtitan2024;
    const double W = static_cast<double>(warmup), S = 20;
    const LrSchedule s = lr_schedule(c, 8e-4, 20);
    EXPECT_TRUE(s.notes.empty());
    for (int64_t k = 0; k < 20; ++k) {
      const auto n = static_cast<double>(k);
      const double factor = n < W ? (n + 1) / (W + 1) : 1 - (n - W) / std::max(1.0, S - W);
      EXPECT_NEAR(learning_rate(s, k + 1), 8e-4 * factor, 1e-18) << warmup << " " << k;
    }
  }
  for (const DecayType type : {DecayType::kLinear, DecayType::kSqrt, DecayType::kCosine}) {
    for (const double ratio : {-1.0, 0.0, 0.3}) {
      config::LrScheduler c = scheduler(5, ratio, type, 0.1);
      c.rule = ScheduleRule::kTorchtitan2025;
      const LrSchedule s = lr_schedule(c, 2, 20);
      const double W = 5, D = ratio < 0 ? 15 : ratio == 0 ? 0 : 6, stable = 20 - W - D;
      for (int64_t k = 0; k < 20; ++k) {
        const auto n = static_cast<double>(k);
        const double p = (n + 1 - W - stable) / (D + 1);
        const double shape = type == DecayType::kLinear ? 1 - p
                             : type == DecayType::kSqrt ? 1 - std::sqrt(p)
                                                        : 0.5 * (1 + std::cos(M_PI * p));
        const double factor = n < W ? (n + 1) / (W + 1) : n < W + stable ? 1 : 0.1 + 0.9 * shape;
        EXPECT_NEAR(learning_rate(s, k + 1), 2 * factor, 1e-15) << name_of(type) << " " << ratio << " " << k;
      }
    }
  }
}

TEST(LrSchedule, FollowsTheSchedulesOfTransformers) {
  HEARTH_NEEDS_ORACLE();
  struct Case {
    DecayType type;
    int64_t num_cycles = 1;
    double power = 1, floor = 0;
    int64_t decay_steps = -1, end = 28;  // of 30 steps
  };
  std::map<std::string, Case> cases = {{"linear", {DecayType::kLinear}},
                                       {"cosine", {DecayType::kCosine}},
                                       {"cosine_with_restarts", {DecayType::kCosineWithRestarts, 3}},
                                       {"polynomial", {DecayType::kPolynomial, 1, 2.5, 0.1}},
                                       {"cosine_with_min_lr", {DecayType::kCosine, 1, 1, 0.25}},
                                       {"constant_with_warmup", {DecayType::kConstant}}};
  for (const auto& [name, type] :
       {std::pair{"linear", DecayType::kLinear}, {"cosine", DecayType::kCosine}, {"1-sqrt", DecayType::kSqrt}}) {
    for (const int64_t stable : {0, 6, 20})
      cases[fmt::format("warmup_stable_decay:{}:{}", name, stable)] = {type, 1, 1,
                                                                       0.1,  9, stable == 0 ? 28 : 7 + stable + 9};
  }
  const test::CommandResult result = test::run_python("tests/plan/optimizer/schedule_oracle.py");
  ASSERT_EQ(result.exit_code, 0) << result.output;
  std::istringstream words(result.output);
  size_t compared = 0;
  for (std::string name; words >> name; ++compared) {
    const Case& c = cases.at(name);
    const bool stable = c.decay_steps > 0;
    config::LrScheduler s = scheduler(7, stable ? static_cast<double>(c.decay_steps) / 30 : -1, c.type, c.floor);
    s.rule = ScheduleRule::kTransformers;
    s.end_step = c.end;
    s.num_cycles = c.num_cycles;
    s.power = c.power;
    const LrSchedule ours = lr_schedule(s, 3e-4, 30);
    for (int64_t step = 1; step <= 30; ++step) {
      double expected = 0;
      ASSERT_TRUE(words >> expected) << name;
      // Past its end Transformers' cosine rises again; ours stays.
      if (c.type == DecayType::kCosine && step > 29 && !stable) continue;
      EXPECT_NEAR(learning_rate(ours, step), expected, 1e-18) << name << " " << step;
    }
  }
  EXPECT_EQ(compared, cases.size());
}

TEST(LrSchedule, TakesGptNeoxsWarmupAsAFractionOfItsDecay) {
  config::LrScheduler c = scheduler(0, -1, DecayType::kLinear);
  c.rule = config::ScheduleRule::kNeox;
  c.warmup_fraction = 0.1;
  c.end_step = 40;
  EXPECT_EQ(lr_schedule(c, 1, 100).warmup_steps, 4);
}

}  // namespace
}  // namespace hearth::plan
