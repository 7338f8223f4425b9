// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <regex>

#include "checkpoint/retain.h"
#include "checkpoint/verify.h"
#include "kills.h"

namespace hearth::train {
namespace {

TEST(KillSlow, AThousandKillsAtRandomMomentsChangeNothing) {
  test::ScratchFolder scratch;
  build_tiny_data(scratch);
  config::RunConfig c = tiny_config(scratch);
  c.training.steps = 3000;
  c.optimizer.lr = 1e-3;
  c.checkpoint.interval = 0;  // results must not depend on the interval
  c.checkpoint.keep_latest_k = 3;
  c.validation.freq = 1500;
  c.job.dump_folder = "whole";
  const auto expected = train(c);
  const auto tensors = tensors_of(step_of(c, 3000));

  c.checkpoint.interval = 3;
  // On a busy machine kills are late, and a run is over before it was killed that often: then another one begins.
  int64_t kills = 0;
  for (uint64_t run = 0; kills < 1000 && !testing::Test::HasFailure(); ++run) {
    c.job.dump_folder = fmt::format("killed-{}", run);
    const int64_t more = train_with_kills(c, 1000 - kills, 2 + run);
    ASSERT_GT(more, 0) << "a whole run without a kill";
    kills += more;
    expect_same_training(metrics::read_metrics(c.run_folder() / "metrics.jsonl"), expected);
    EXPECT_EQ(tensors_of(step_of(c, 3000)), tensors);
  }
}

// The last step that the process said it had saved; 0: none.
int64_t last_reported(const std::string& printed) {
  static const std::regex line("saved \\S*/step-([0-9]+) in [^\n]+\n");
  int64_t last = 0;
  for (std::sregex_iterator match(printed.begin(), printed.end(), line), none; match != none; ++match)
    last = std::stoll((*match)[1]);
  return last;
}

TEST(KillSlow, TwoHundredKillsLoseNothingThatWasReportedAsSavedBehindTheTraining) {
  test::ScratchFolder scratch;
  build_tiny_data(scratch);
  config::RunConfig c = tiny_config(scratch);
  c.training.steps = 1500;
  c.optimizer.lr = 1e-3;
  c.checkpoint.interval = 0;
  c.checkpoint.keep_latest_k = 2;
  c.job.dump_folder = "whole";
  const auto expected = train(c);
  const auto tensors = tensors_of(step_of(c, 1500));

  c.checkpoint.async_mode = config::AsyncMode::kAsync;
  c.checkpoint.interval = 2;
  int64_t kills = 0, with_reports = 0;
  for (uint64_t run = 0; kills < 200 && !testing::Test::HasFailure(); ++run) {
    c.job.dump_folder = fmt::format("killed-{}", run);
    int64_t newest = 0;
    const int64_t more = train_with_kills(c, 200 - kills, 3 + run, [&](const std::string& printed) {
      const int64_t reported = last_reported(printed);
      newest = std::max(newest, reported);
      const checkpoint::NewestGood good = checkpoint::newest_good(c.checkpoint_folder());
      EXPECT_TRUE(good.damaged.empty());
      if (newest == 0) return;
      ASSERT_TRUE(good.step.has_value()) << "step " << newest << " was reported";
      EXPECT_GE(*good.step, newest);
      if (reported == 0) return;
      ++with_reports;
      EXPECT_TRUE(checkpoint::verify_checkpoint(step_of(c, reported)).problems.empty()) << reported;
    });
    ASSERT_GT(more, 0) << "a whole run without a kill";
    kills += more;
    expect_same_training(metrics::read_metrics(c.run_folder() / "metrics.jsonl"), expected);
    EXPECT_EQ(tensors_of(step_of(c, 1500)), tensors);
  }
  EXPECT_GT(with_reports, 50);
  std::printf("%d of 200 kills came after a report\n", static_cast<int>(with_reports));
}

}  // namespace
}  // namespace hearth::train
