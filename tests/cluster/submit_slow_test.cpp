// SPDX-License-Identifier: Apache-2.0
// Runs that `hearth submit` starts, under a real Slurm on this machine and without one: they end with the bits of an
// undisturbed run, whatever ends their jobs.
#include "submitted_runs.h"

namespace hearth::cluster {
namespace {

using testing::AnyOf;
using testing::HasSubstr;

TEST_F(SlurmRuns, GoOnThroughTheSignalOfATimeLimitToTheBitsOfTheUndisturbedRun) {
  train_undisturbed();
  write_run("limited", kSteps, kInterval);
  const std::string job = submit("limited");
  for (const size_t ends : {0u, 1u}) {
    ASSERT_TRUE(comes_true([&] { return is_at("limited", ends == 0 ? 150 : 750); })) << output("limited");
    test::run_command("scancel --batch --signal=USR2 " + job);
    ASSERT_TRUE(comes_true([&] { return reasons("limited").size() > ends; })) << output("limited");
  }
  ASSERT_TRUE(comes_true([&] { return state("limited") == RunState::kDone; })) << output("limited");
  EXPECT_THAT(reasons("limited"),
              testing::ElementsAre("the time limit came", "the time limit came", "the training is complete"));
  EXPECT_EQ(newest_job(read_starts(folder("limited"))), job);  // the same job, requeued
  expect_same_run("limited", "undisturbed");
}

// Slurm sends the signal up to half a minute early, and here ends a job after a minute.
TEST_F(SlurmRuns, GoOnThroughRealTimeLimitsInNewJobs) {
  write_file_atomic(toml("cluster"), read_file(toml("cluster")) + "[start]\ncommands = [\"export LATER=yes\"]\n");
  std::string text = read_file(toml("cluster"));
  text.insert(text.find("signal_lead"), "time_limit = \"1\"\nrequeue = false\n");
  write_file_atomic(toml("cluster"), text);
  write_run("limited", 1'000'000, 500);
  const std::string first = submit("limited");
  ASSERT_TRUE(comes_true([&] {
    return newest_job(read_starts(folder("limited"))) != first && reasons("limited").size() == 1;
  })) << output("limited");
  EXPECT_THAT(reasons("limited"), testing::ElementsAre("the time limit came"));
  const StartEvent end = read_starts(folder("limited")).at(2);
  EXPECT_EQ(end.code, 75) << output("limited");
  EXPECT_GT(end.step, 0);
  ASSERT_TRUE(comes_true([&] { return is_at("limited", end.step + 1); })) << output("limited");
  EXPECT_EQ(run_hearth("stop --now " + folder("limited").string()).exit_code, 0);
  ASSERT_TRUE(comes_true([&] { return state("limited") == RunState::kStopped; })) << output("limited");
}

TEST_F(SlurmRuns, GoOnAfterTheDeathOfARankAndOfANode) {
  train_undisturbed();
  write_run("killed", kSteps, kInterval);
  submit("killed");
  ASSERT_TRUE(comes_true([&] { return has_checkpoint("killed"); })) << output("killed");
  kill_a_rank("killed");
  ASSERT_TRUE(comes_true([&] { return reasons("killed").size() == 1; })) << output("killed");
  const auto node = [&] { return run_status(folder("killed")).slurm.value_or(SlurmJob{}).nodes; };
  const std::string first = node();
  ASSERT_THAT(first, AnyOf("node1", "node2"));
  const int64_t step = checkpoint::list_steps(folder("killed") / "checkpoints").back();
  ASSERT_TRUE(comes_true([&] { return checkpoint::list_steps(folder("killed") / "checkpoints").back() > step; }));
  EXPECT_EQ(node(), first);  // the ranks started again in their allocation
  cluster->kill_node(first);
  ASSERT_TRUE(comes_true([&] { return state("killed") == RunState::kDone; })) << output("killed");
  EXPECT_NE(node(), first) << output("killed");
  expect_same_run("killed", "undisturbed");
}

TEST_F(SlurmRuns, ACrashLoopIsStopped) {
  // Every start of the ranks is killed.
  const Path program = scratch / "program";
  write_file_atomic(program,
                    fmt::format("#!/bin/sh\n[ $1 = job ] && exec {} \"$@\"\nkill -9 $$\n", test::hearth_binary()));
  std::filesystem::permissions(program, std::filesystem::perms::all);
  write_file_atomic(toml("cluster"),
                    fmt::format("{}[start]\nhearth = \"{}\"\n", read_file(toml("cluster")), program.string()));
  write_run("loop", kSteps, kInterval);
  submit("loop", "--max-restarts 1");
  ASSERT_TRUE(comes_true([&] { return state("loop") == RunState::kStopped; })) << output("loop");
  ASSERT_EQ(reasons("loop").size(), 2u) << output("loop");
  EXPECT_THAT(reasons("loop").back(), HasSubstr("2 starts in a row made no new checkpoint"));
  EXPECT_EQ(run_status(folder("loop")).slurm.value_or(SlurmJob{}).state, "FAILED");
}

TEST_F(SlurmRuns, AreQueuedRefusedTwiceCancelledStoppedAndGoOn) {
  train_undisturbed();
  const std::string blocker =
      test::run_command("sbatch --parsable -N2 --exclusive --output=/dev/null --wrap='sleep 900'").output;
  write_run("run", kSteps, kInterval);
  const std::string first = submit("run");
  EXPECT_EQ(state("run"), RunState::kQueued);
  const CommandResult second =
      run_hearth(fmt::format("submit {} --cluster {}", toml("run").string(), toml("cluster").string()));
  EXPECT_EQ(second.exit_code, 2);
  EXPECT_THAT(second.output, HasSubstr("is queued already: job " + first));
  test::run_command("scancel " + first);
  ASSERT_TRUE(comes_true([&] { return state("run") == RunState::kStopped; }));
  EXPECT_EQ(run_status(folder("run")).why, "Slurm says CANCELLED of job " + first);
  submit("run");
  EXPECT_EQ(run_hearth("stop " + toml("run").string()).exit_code, 0);
  ASSERT_TRUE(comes_true([&] { return state("run") == RunState::kStopped; }));
  test::run_command("scancel " + blocker);

  submit("run");
  ASSERT_TRUE(comes_true([&] { return is_at("run", 150); })) << output("run");
  EXPECT_EQ(run_hearth("stop " + toml("run").string()).exit_code, 0);
  ASSERT_TRUE(comes_true([&] { return state("run") == RunState::kStopped; })) << output("run");
  EXPECT_THAT(reasons("run"), testing::ElementsAre("`hearth stop` asked for it"));
  EXPECT_EQ(run_status(folder("run")).slurm.value_or(SlurmJob{}).state, "CANCELLED");
  EXPECT_NE(checkpoint::list_steps(folder("run") / "checkpoints").back() % kInterval, 0);  // it saved
  submit("run");
  ASSERT_TRUE(comes_true([&] { return state("run") == RunState::kDone; })) << output("run");
  expect_same_run("run", "undisturbed");
}

TEST_F(ComparedRuns, OfThisHostGoOnAfterAKilledRankAndAStop) {
  train_undisturbed();
  write_run("here", kSteps, kInterval);
  const std::string job = submit("here", "--cluster local");
  EXPECT_THAT(job, testing::StartsWith("local-"));
  ASSERT_TRUE(comes_true([&] { return has_checkpoint("here"); })) << output("here");
  EXPECT_EQ(state("here"), RunState::kRunning);
  kill_a_rank("here");
  ASSERT_TRUE(comes_true([&] { return reasons("here").size() == 1; })) << output("here");
  ASSERT_TRUE(comes_true([&] { return is_at("here", 400); })) << output("here");
  EXPECT_EQ(run_hearth("stop " + toml("here").string()).exit_code, 0);
  ASSERT_TRUE(comes_true([&] { return state("here") == RunState::kStopped; })) << output("here");
  EXPECT_EQ(reasons("here").back(), "`hearth stop` asked for it");
  submit("here", "--cluster local");
  ASSERT_TRUE(comes_true([&] { return is_at("here", 600); })) << output("here");
  EXPECT_EQ(run_hearth("stop --now " + toml("here").string()).exit_code, 0);
  ASSERT_TRUE(comes_true([&] { return state("here") == RunState::kStopped; })) << output("here");
  submit("here", "--cluster local");
  ASSERT_TRUE(comes_true([&] { return state("here") == RunState::kDone; })) << output("here");
  expect_same_run("here", "undisturbed");
}

// As by the kernel, where memory is short.
TEST_F(ComparedRuns, OfThisHostAreSeenAndStoppedWithoutTheirScript) {
  train_undisturbed();
  write_run("here", kSteps, kInterval);
  const auto kill_the_script = [&](const std::string& job) {
    ASSERT_EQ(::kill(static_cast<pid_t>(local_process(job).value()), SIGKILL), 0);
    ASSERT_TRUE(comes_true([&] { return !local_job_runs(job, folder("here")); }));
  };
  const auto share = [&] { return run_status(folder("here")).goodput.share(); };
  const std::string first = submit("here", "--cluster local");
  ASSERT_TRUE(comes_true([&] { return is_at("here", 50); })) << output("here");
  kill_the_script(first);
  EXPECT_EQ(state("here"), RunState::kRunning);
  EXPECT_THAT(run_status(folder("here")).why, HasSubstr("the script of job " + first + " was killed"));
  EXPECT_EQ(run_hearth("submit --cluster local " + toml("here").string()).exit_code, 2);
  EXPECT_LE(share(), 1);
  EXPECT_EQ(run_hearth("stop " + toml("here").string()).exit_code, 0);
  ASSERT_TRUE(comes_true([&] { return state("here") == RunState::kStopped; })) << output("here");
  const int64_t saved = checkpoint::list_steps(folder("here") / "checkpoints").back();
  EXPECT_EQ(saved, run_status(folder("here")).step);  // it saved
  EXPECT_LE(share(), 1);

  const std::string second = submit("here", "--cluster local");
  ASSERT_TRUE(comes_true([&] { return is_at("here", saved + 50); })) << output("here");
  kill_the_script(second);
  EXPECT_EQ(run_hearth("stop --now " + toml("here").string()).exit_code, 0);
  ASSERT_TRUE(comes_true([&] { return state("here") == RunState::kStopped; })) << output("here");
  submit("here", "--cluster local");
  ASSERT_TRUE(comes_true([&] { return state("here") == RunState::kDone; })) << output("here");
  EXPECT_LE(share(), 1);
  expect_same_run("here", "undisturbed");
}

TEST_F(Runs, ThatAreRefusedStopAtOnce) {
  write_run("refused", 100, 50);
  submit("refused", "--cluster local --set data.path=data --set memory.limit=1MiB");
  ASSERT_TRUE(comes_true([&] { return state("refused") == RunState::kStopped; })) << output("refused");
  EXPECT_THAT(reasons("refused"), testing::ElementsAre(HasSubstr("exit code 2")));
}

}  // namespace
}  // namespace hearth::cluster
