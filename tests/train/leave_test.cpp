// SPDX-License-Identifier: Apache-2.0
// Signals to a training process, and its exit codes for a supervisor.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "checkpoint/retain.h"
#include "run_process.h"

namespace hearth::train {
namespace {

using testing::HasSubstr;
using testing::Not;

struct Leave : ::testing::Test {
  void SetUp() override {
    build_tiny_data(scratch);
    config = tiny_config(scratch);
    config.training.steps = 1'000'000;  // only a signal ends it
    config.checkpoint.interval = 0;
    toml = write_run_file(config);
  }
  std::vector<int64_t> saved() const { return checkpoint::list_steps(config.checkpoint_folder()); }

  test::ScratchFolder scratch;
  config::RunConfig config;
  Path toml, log = scratch / "log";
};

TEST_F(Leave, AskedToTerminateItFinishesTheStepSavesAndExitsWith75) {
  for (const int number : {SIGTERM, SIGINT}) {
    RunProcess process({"train", toml.string()}, log);
    const int64_t before = steps_logged(config);
    ASSERT_TRUE(wait_until(process, [&] { return steps_logged(config) >= before + 3; })) << read_file(log);
    process.signal(number);
    EXPECT_EQ(process.wait(), 75) << read_file(log);
    ASSERT_FALSE(saved().empty());
    EXPECT_EQ(saved().back(), steps_logged(config)) << "every step that was logged is in the checkpoint";
    EXPECT_EQ(checkpoint::newest_good(config.checkpoint_folder()).step, saved().back());
  }
}

TEST_F(Leave, AskedByUser1ItSavesAndGoesOn) {
  RunProcess process({"train", toml.string()}, log);
  ASSERT_TRUE(wait_until(process, [&] { return steps_logged(config) >= 2; })) << read_file(log);
  process.signal(SIGUSR1);
  ASSERT_TRUE(wait_until(process, [&] { return !saved().empty(); })) << read_file(log);
  const int64_t step = saved().front();
  EXPECT_TRUE(wait_until(process, [&] { return steps_logged(config) >= step + 2; })) << read_file(log);
  process.signal(SIGTERM);
  EXPECT_EQ(process.wait(), 75);
  EXPECT_EQ(saved().size(), 2u);
}

TEST_F(Leave, ARunWithSeveralRanksLeavesTogether) {
  config.parallelism.data_parallel_shard_degree = 2;
  write_run_file(config);
  RunProcess process({"train", toml.string()}, log);
  ASSERT_TRUE(wait_until(process, [&] { return steps_logged(config) >= 2; })) << read_file(log);
  process.signal(SIGTERM);
  EXPECT_EQ(process.wait(), 75) << read_file(log);
  ASSERT_FALSE(saved().empty());
  EXPECT_EQ(saved().back(), steps_logged(config));
}

// A terminal sends Ctrl-C to all processes in its foreground, and `hearth train` passes its own on to the ranks.
TEST_F(Leave, OneCtrlCThatComesTwiceToEachRankSaves) {
  config.parallelism.data_parallel_shard_degree = 2;
  write_run_file(config);
  RunProcess process({"train", toml.string()}, log);
  ASSERT_TRUE(wait_until(process, [&] { return steps_logged(config) >= 2; })) << read_file(log);
  for (const pid_t rank : process.ranks()) ::kill(rank, SIGINT);
  process.signal(SIGINT);
  EXPECT_EQ(process.wait(), 75) << read_file(log);
  ASSERT_FALSE(saved().empty());
  EXPECT_EQ(saved().back(), steps_logged(config));
  EXPECT_THAT(read_file(log), HasSubstr("asked to stop: the run finishes its step, saves and ends; Ctrl-C once more"));
  EXPECT_THAT(read_file(log), testing::EndsWith("\nstopped, as asked: the same command goes on\n"));
}

// It is the user's end of the run, so --max-restarts does not start the ranks again.
TEST_F(Leave, AnotherCtrlCEndsSeveralRanksAtOnce) {
  config.parallelism.data_parallel_shard_degree = 2;
  config.training.global_batch_size = 1 << 20;  // a step that never ends
  write_run_file(config);
  RunProcess process({"train", toml.string(), "--max-restarts", "2"}, log);
  ASSERT_TRUE(wait_until(process, [&] { return path_exists(config.run_folder() / "config.toml"); })) << read_file(log);
  process.signal(SIGINT);
  ASSERT_TRUE(wait_until(process, [&] { return read_file(log).find("asked to stop") != std::string::npos; }));
  std::this_thread::sleep_for(std::chrono::seconds(1));
  process.signal(SIGINT);
  EXPECT_EQ(process.wait(), 130) << read_file(log);
  EXPECT_TRUE(saved().empty());
  EXPECT_THAT(read_file(log), HasSubstr("ended by Ctrl-C, without a save: the run goes on from its newest checkpoint"));
  EXPECT_THAT(read_file(log), Not(HasSubstr("error:")));
}

TEST_F(Leave, ARankThatDiesWhileTheRunEndsIsNotStartedAgain) {
  config.parallelism.data_parallel_shard_degree = 2;
  config.training.global_batch_size = 1 << 20;
  write_run_file(config);
  RunProcess process({"train", toml.string(), "--max-restarts", "2"}, log);
  ASSERT_TRUE(wait_until(process, [&] { return path_exists(config.run_folder() / "config.toml"); })) << read_file(log);
  process.signal(SIGTERM);
  ASSERT_TRUE(wait_until(process, [&] { return read_file(log).find("asked to stop") != std::string::npos; }));
  ::kill(process.ranks().back(), SIGKILL);
  EXPECT_EQ(process.wait(), 4) << read_file(log);
  EXPECT_THAT(read_file(log), Not(HasSubstr("start again")));
}

TEST_F(Leave, ItSavesByTheClockToo) {
  config.checkpoint.interval_seconds = 0.05;
  write_run_file(config);
  RunProcess process({"train", toml.string()}, log);
  EXPECT_TRUE(wait_until(process, [&] { return saved().size() >= 2; })) << read_file(log);
}

TEST_F(Leave, TheClockDecidesHowOften) {
  config::RunConfig c = tiny_config(scratch);
  c.checkpoint.interval = 0;
  c.checkpoint.interval_seconds = 3600;
  c.job.dump_folder = "rarely";
  train(c);
  EXPECT_EQ(checkpoint::list_steps(c.checkpoint_folder()), (std::vector<int64_t>{12}));  // the last step
  c.checkpoint.interval_seconds = 1e-9;
  c.checkpoint.keep_latest_k = 0;
  c.job.dump_folder = "always";
  train(c);
  EXPECT_EQ(checkpoint::list_steps(c.checkpoint_folder()).size(), 12u);
}

TEST_F(Leave, ASecondTrainingInTheFolderIsRefusedWithCode2) {
  RunProcess first({"train", toml.string()}, log);
  ASSERT_TRUE(wait_until(first, [&] { return steps_logged(config) >= 1; })) << read_file(log);
  RunProcess second({"train", toml.string()}, scratch / "second.log");
  EXPECT_EQ(second.wait(), 2);
  EXPECT_THAT(read_file(scratch / "second.log"), HasSubstr("another training runs in"));
  EXPECT_TRUE(first.running());
}

TEST_F(Leave, MemoryThatIsNotThereIsAnErrorBeforeAnythingIsAllocated) {
  config.model.dim = 1 << 18;
  config.model.n_heads = 1024;
  config.model.n_kv_heads = 512;
  config.model.n_layers = 1000;
  config.model.hidden_dim = 1 << 20;
  write_run_file(config);
  RunProcess process({"train", toml.string()}, log);
  EXPECT_EQ(process.wait(), 2);
  const std::string output = read_file(log);
  EXPECT_THAT(output, HasSubstr("error: the training needs 14.6 PiB of memory")) << output;
  EXPECT_THAT(output, Not(HasSubstr("frame #"))) << output;
}

}  // namespace
}  // namespace hearth::train
