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
  c.training.steps = 9000;  // a busy machine is late with each kill
  c.optimizer.lr = 1e-3;
  c.checkpoint.interval = 0;  // results must not depend on the interval
  c.checkpoint.keep_latest_k = 3;
  c.validation.freq = 1500;
  c.job.dump_folder = "whole";
  const auto expected = train(c);
  const auto tensors = tensors_of(step_of(c, 9000));

  c.job.dump_folder = "killed";
  c.checkpoint.interval = 3;
  EXPECT_EQ(train_with_kills(c, 1000, 2), 1000) << "the run ended before it could be killed that often";
  expect_same_training(metrics::read_metrics(c.run_folder() / "metrics.jsonl"), expected);
  EXPECT_EQ(tensors_of(step_of(c, 9000)), tensors);
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

  c.job.dump_folder = "killed";
  c.checkpoint.async_mode = config::AsyncMode::kAsync;
  c.checkpoint.interval = 2;
  int64_t with_reports = 0, newest = 0;
  const auto check = [&](const std::string& printed) {
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
  };
  EXPECT_EQ(train_with_kills(c, 200, 3, check), 200) << "the run ended before it could be killed that often";
  EXPECT_GT(with_reports, 50);
  RecordProperty("kills_after_a_report", static_cast<int>(with_reports));
  std::printf("%d of 200 kills came after a report, the last of step %d\n", static_cast<int>(with_reports),
              static_cast<int>(newest));
  expect_same_training(metrics::read_metrics(c.run_folder() / "metrics.jsonl"), expected);
  EXPECT_EQ(tensors_of(step_of(c, 1500)), tensors);
}

}  // namespace
}  // namespace hearth::train
