// SPDX-License-Identifier: Apache-2.0
// Failures during a run, and what must be left after them.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cerrno>
#include <cmath>
#include <csignal>
#include <thread>

#include "checkpoint/retain.h"
#include "support/durable.h"
#include "support/failpoint.h"
#include "tiny_run.h"

namespace hearth::train {
namespace {

using testing::HasSubstr;

struct Trouble : TinyData {};

TEST_F(Trouble, ALossThatIsNoNumberStopsTheRunAndIsNotSaved) {
  config::RunConfig c = tiny_config(scratch);
  train(c);
  c.optimizer.lr = 1e30;
  c.training.max_norm = 0;
  c.training.steps = 40;
  c.checkpoint.interval = 1;
  const Error error = error_of([&] { run_training(c, {}); });
  EXPECT_EQ(error.code(), ExitCode::kDamaged);
  EXPECT_THAT(error.message(), HasSubstr("step 1")) << error.what();
  EXPECT_THAT(error.message(), HasSubstr("nan")) << error.what();
  EXPECT_THAT(error.fix(), HasSubstr("optimizer.lr")) << error.what();
  // The stored state and the log end before the bad step, and have only finite numbers.
  const auto records = metrics::read_metrics(c.run_folder() / "metrics.jsonl");
  const auto steps = checkpoint::list_steps(c.checkpoint_folder());
  EXPECT_EQ(steps.back(), records.back().step);
  EXPECT_THAT(error.message(), HasSubstr(fmt::format("step {}:", steps.back() + 1))) << error.what();
  EXPECT_EQ(checkpoint::newest_good(c.checkpoint_folder()).step, steps.back());
}

TEST_F(Trouble, ALossThatIsNoNumberStopsEveryRank) {
  config::RunConfig c = tiny_config(scratch);
  c.parallelism.data_parallel_shard_degree = 2;
  c.optimizer.lr = 1e30;
  c.training.max_norm = 0;
  c.training.steps = 40;
  EXPECT_EQ(error_of([&] { run_training(c, {}); }).code(), ExitCode::kDamaged);
}

// The N-th call that changes the disk fails, for every N. The newest good checkpoint is always one that the run had
// reached, and a second start always ends with the numbers of an undisturbed run.
class DiskTrouble : public testing::TestWithParam<config::AsyncMode> {};

TEST_P(DiskTrouble, WhicheverDiskCallFailsTheLastGoodStateSurvives) {
  test::ScratchFolder scratch;
  build_tiny_data(scratch, 60);
  config::RunConfig c = tiny_config(scratch);
  c.model.n_layers = 1;
  c.training.steps = 3;
  c.checkpoint.interval = 1;
  c.checkpoint.keep_latest_k = 2;
  c.job.dump_folder = "whole";
  const auto expected = train(c);
  const auto tensors = tensors_of(step_of(c, 3));

  c.checkpoint.async_mode = GetParam();
  for (int64_t nth = 1;; ++nth) {
    c.job.dump_folder = fmt::format("run{}", nth);
    failpoint::arm(nth, nth % 2 == 0 ? EIO : ENOSPC);
    bool failed = false;
    try {
      run_training(c, {});
    } catch (const Error& e) {
      failed = true;
      EXPECT_EQ(e.code(), ExitCode::kHardware) << e.what();
    }
    const int64_t calls = failpoint::calls();
    const bool reached = calls >= nth;
    failpoint::disarm();
    if (!reached) {
      EXPECT_GT(nth, 30) << "saving three times takes more calls than that";
      break;
    }
    // The last call says in the lease that the run has ended: nobody needs it, and everything is saved.
    EXPECT_TRUE(failed || nth == calls) << "call " << nth << " failed and nobody noticed";
    const auto good = checkpoint::newest_good(c.checkpoint_folder());
    EXPECT_TRUE(good.damaged.empty()) << "call " << nth << " left a damaged checkpoint under a final name";
    expect_same_training(train(c), expected);
    EXPECT_EQ(tensors_of(step_of(c, 3)), tensors) << "after call " << nth;
    std::filesystem::remove_all(c.run_folder());
  }
}

INSTANTIATE_TEST_SUITE_P(Saving, DiskTrouble, testing::Values(config::AsyncMode::kDisabled, config::AsyncMode::kAsync),
                         [](const auto& mode) { return std::string(config::name_of(mode.param)); });

// A power cut after a save loses neither the checkpoint nor the steps before it in the log.
TEST_F(Trouble, ACheckpointAndTheLogUpToItAreOnTheDiskBeforeItHasItsName) {
  config::RunConfig c = tiny_config(scratch);
  c.training.steps = 8;  // two saves
  const std::vector<failpoint::Call> calls = test::disk_calls([&] { train(c); });
  test::expect_durable(calls);
  bool log_is_safe = false;
  int saves = 0;
  for (const auto& [what, path] : calls) {
    if (path.filename() == "metrics.jsonl") log_is_safe = what == "fsync";
    if (what != "rename" || path.parent_path() != c.checkpoint_folder()) continue;
    ++saves;
    EXPECT_TRUE(log_is_safe) << "when " << path << " was renamed";
  }
  EXPECT_EQ(saves, 2);
}

TEST_F(Trouble, AReadOnlyRunFolderIsNamed) {
  config::RunConfig c = tiny_config(scratch);
  write_file_atomic(scratch / "run", "a file where the run folder should be");
  const Error error = error_of([&] { run_training(c, {}); });
  EXPECT_EQ(error.code(), ExitCode::kUser);
  EXPECT_THAT(error.message(), HasSubstr("/run")) << error.what();
}

TEST_F(Trouble, AVocabularyTooSmallForTheTokenizerIsRefused) {
  config::RunConfig c = tiny_config(scratch);
  c.model.vocab_size = 100;
  const Error error = error_of([&] { run_training(c, {}); });
  EXPECT_EQ(error.code(), ExitCode::kUser);
  EXPECT_THAT(error.message(), HasSubstr("model.vocab_size")) << error.what();
}

TEST_F(Trouble, ValidationWithoutHeldOutTextIsRefusedBeforeTheFirstStep) {
  data::BuildOptions options;
  options.out = scratch / "all";
  options.paths = {scratch / "text"};
  data::BuildProgress progress;
  data::build_dataset(options, progress);
  config::RunConfig c = tiny_config(scratch);
  c.data.path = "all";
  c.validation.freq = 5;
  EXPECT_EQ(error_of([&] { run_training(c, {}); }).code(), ExitCode::kUser);
  EXPECT_FALSE(path_exists(c.run_folder() / "metrics.jsonl"));
}

TEST(ShortCorpus, ACorpusShorterThanAWindowIsRefused) {
  test::ScratchFolder scratch;
  build_tiny_data(scratch, 2);
  config::RunConfig c = tiny_config(scratch);
  c.training.seq_len = 4096;
  EXPECT_EQ(error_of([&] { run_training(c, {}); }).code(), ExitCode::kUser);
}

}  // namespace
}  // namespace hearth::train
