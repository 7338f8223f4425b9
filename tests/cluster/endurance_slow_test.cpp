// SPDX-License-Identifier: Apache-2.0
// A run that is disturbed again and again ends with the bits of an undisturbed one: bench/faults.py, for some minutes.
#include "submitted_runs.h"

namespace hearth::cluster {
namespace {

using testing::HasSubstr;

TEST_F(Runs, UnderAFaultEverySomeSecondsEndWithTheBitsOfTheUndisturbedRun) {
  if (const std::string why = Cluster::why_not(); !why.empty()) GTEST_SKIP() << why;
  std::filesystem::permissions(scratch.path(), std::filesystem::perms(0755));  // munged wants to be reached by everyone
  const CommandResult result = test::run_command(
      fmt::format("python3 {} --hearth {} --folder {} --steps 2500 --every 8 --interval 50 --dim 64 --limit-s 400 "
                  "--seed 3",
                  test::source_path("bench/faults.py"), test::hearth_binary(), folder("endurance").string()));
  ASSERT_EQ(result.exit_code, 0) << result.output;
  EXPECT_THAT(result.output, HasSubstr("the last checkpoints have the same bits"));
  EXPECT_THAT(result.output, HasSubstr("the goodput is at least what is predicted"));
  // Not the script's word alone.
  expect_same_run("endurance/faults", "endurance/undisturbed");
  const RunStatus status = run_status(folder("endurance/faults"));
  EXPECT_EQ(status.state, RunState::kDone);
  EXPECT_GE(status.goodput.starts, 3) << result.output;  // some faults hit it
  EXPECT_GT(metrics::read_history(folder("endurance/faults") / "metrics.jsonl").repeated_steps, 0);
  EXPECT_GT(status.goodput.share(), 0);
  EXPECT_LT(status.goodput.share(), 1);
  std::cout << result.output;
}

}  // namespace
}  // namespace hearth::cluster
