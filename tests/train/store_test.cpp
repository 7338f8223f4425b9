// SPDX-License-Identifier: Apache-2.0
// Trainings whose data and checkpoints are in a store: the bits of a training on a disk.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/copy_tree.h"
#include "base/quantity.h"
#include "checkpoint/retain.h"
#include "checkpoint/verify.h"
#include "comm/group.h"
#include "run/start.h"
#include "run_process.h"
#include "store/s3_server.h"
#include "support/hearth_command.h"
#include "tiny_run.h"

namespace hearth::train {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

struct StoredTraining : TinyData {
  // A run of this name on the disk, and one in the store.
  config::RunConfig on_disk(const std::string& name) const {
    config::RunConfig c = tiny_config(scratch);
    c.job.dump_folder = name;
    return c;
  }
  config::RunConfig in_store(const std::string& name) const {
    config::RunConfig c = on_disk(name);
    c.data.path = "s3://bucket/data";
    c.checkpoint.folder = "s3://bucket/" + name;
    return c;
  }
  // The first that a test asks the store for.
  void copy_data() const {
    // No answer is missing here, and on a busy machine one can take seconds: the two of S3Server are for its faults.
    ::setenv("HEARTH_S3_REQUEST_TIMEOUT", "60", 1);
    remove_tree("s3://bucket/data");  // of another test: no object is replaced
    CopyProgress progress;
    copy_tree(scratch / "data", "s3://bucket/data", progress);
  }
};

TEST_F(StoredTraining, HasTheBitsOfOneOnADiskAndGoesOn) {
  HEARTH_NEEDS_STORE();
  copy_data();
  for (const int64_t ranks : {1, 2}) {
    for (const config::AsyncMode mode : {config::AsyncMode::kDisabled, config::AsyncMode::kAsync}) {
      const std::string name = fmt::format("{}-{}", ranks, static_cast<int>(mode));
      config::RunConfig disk = on_disk("disk-" + name), store = in_store("store-" + name);
      for (config::RunConfig* c : {&disk, &store}) {
        c->parallelism.data_parallel_shard_degree = ranks;
        c->checkpoint.async_mode = mode;
        c->checkpoint.keep_latest_k = 2;
      }
      const auto expected = train(disk);
      store.training.steps = 7;
      train(store);
      store.training.steps = 12;
      expect_same_training(train(store), expected);
      EXPECT_THAT(checkpoint::list_steps(store.checkpoint_folder()), ElementsAre(8, 12));
      EXPECT_EQ(tensors_of(step_of(store, 12)), tensors_of(step_of(disk, 12)));
    }
  }
}

TEST_F(StoredTraining, BeginsWithWeightsInAStore) {
  HEARTH_NEEDS_STORE();
  copy_data();
  config::RunConfig first = in_store("first");
  train(first);
  const test::CommandResult exported =
      test::run_hearth(fmt::format("convert --to hf s3://bucket/first s3://bucket/exported"));
  EXPECT_EQ(exported.exit_code, 0) << exported.output;
  EXPECT_TRUE(path_exists("s3://bucket/exported/model.safetensors"));

  config::RunConfig disk = on_disk("from-disk"), native = in_store("from-native"), hf = in_store("from-hf");
  CopyProgress progress;
  copy_tree(step_of(first, 12), scratch / "step", progress);
  disk.checkpoint.initial_load_path = "step";
  native.checkpoint.initial_load_path = "s3://bucket/first";
  hf.checkpoint.initial_load_path = "s3://bucket/exported";
  const auto expected = train(disk);
  expect_same_training(train(native), expected);
  expect_same_training(train(hf), expected);
  // A branch takes over everything.
  for (config::RunConfig* c : {&disk, &native}) {
    c->job.dump_folder += "-branch";
    c->checkpoint.initial_load_model_only = false;
    c->training.steps = 16;
  }
  native.checkpoint.folder += "-branch";
  native.data.path = "data";  // as the checkpoint's run file has it, a branch may move its data
  expect_same_training(train(native), train(disk));
}

TEST_F(StoredTraining, IsKilledAndLosesNothingThatItReported) {
  HEARTH_NEEDS_STORE();
  // A request of a killed process may still be at work in the server, which refuses others to the same object then.
  ::setenv("AWS_MAX_ATTEMPTS", "10", 1);
  copy_data();
  config::RunConfig expected = on_disk("expected"), c = in_store("killed");
  for (config::RunConfig* run : {&expected, &c}) {
    run->training.steps = 60;
    run->checkpoint.interval = 2;
    run->checkpoint.async_mode = config::AsyncMode::kAsync;
  }
  train(expected);
  const Path file = write_run_file(c);
  const auto saved = [&] {
    int64_t step = 0;
    const std::string log = path_exists(scratch / "log") ? read_file(scratch / "log") : "";
    for (int64_t s = 2; s <= 60; s += 2)
      if (log.find(fmt::format("saved s3://bucket/killed/step-{:08}", s)) != std::string::npos) step = s;
    return step;
  };
  for (int kills = 1; kills <= 5; ++kills) {
    RunProcess process({"train", file.string()}, scratch / "log");
    const int64_t before = saved();
    wait_until(process, [&] { return saved() >= before + 2 * kills; });
    std::this_thread::sleep_for(std::chrono::milliseconds(7 * kills));
    process.signal(SIGKILL);
    process.wait();
    const checkpoint::NewestGood found = checkpoint::newest_good(c.checkpoint_folder());
    EXPECT_GE(found.step.value_or(0), saved());
  }
  RunProcess process({"train", file.string()}, scratch / "log");
  EXPECT_EQ(process.wait(), 0) << read_file(scratch / "log");
  EXPECT_THAT(checkpoint::list_steps(c.checkpoint_folder()), testing::Contains(60)) << read_file(scratch / "log");
  EXPECT_EQ(tensors_of(step_of(c, 60)), tensors_of(step_of(expected, 60)));
}

TEST_F(StoredTraining, AStoreThatFailsEndsTheRunWithItsNameAndTheNextStartGoesOn) {
  HEARTH_NEEDS_STORE();
  ::setenv("AWS_MAX_ATTEMPTS", "2", 1);
  copy_data();
  config::RunConfig expected = on_disk("expected"), c = in_store("outage");
  train(expected);
  const Path file = write_run_file(c);
  test::S3Server& server = test::S3Server::get();
  server.set_faults("PUT step-00000008 1 99999 503");
  {
    RunProcess process({"train", file.string()}, scratch / "log");
    EXPECT_EQ(process.wait(), 4) << read_file(scratch / "log");
    EXPECT_THAT(read_file(scratch / "log"), HasSubstr("s3://bucket/outage/step-00000008"));
  }
  EXPECT_THAT(checkpoint::list_steps(c.checkpoint_folder()), testing::Contains(4));
  server.set_faults("");
  RunProcess process({"train", file.string()}, scratch / "log");
  EXPECT_EQ(process.wait(), 0) << read_file(scratch / "log");
  EXPECT_EQ(tensors_of(step_of(c, 12)), tensors_of(step_of(expected, 12)));
}

TEST_F(StoredTraining, AStoreThatDeletesNothingEndsNoTraining) {
  HEARTH_NEEDS_STORE();
  copy_data();
  config::RunConfig c = in_store("undeleted");
  c.checkpoint.keep_latest_k = 1;
  const Path file = write_run_file(c);
  test::S3Server::get().set_faults("DELETE undeleted/ 1 99999 400");
  RunProcess process({"train", file.string()}, scratch / "log");
  EXPECT_EQ(process.wait(), 0) << read_file(scratch / "log");
  test::S3Server::get().set_faults("");
  EXPECT_THAT(read_file(scratch / "log"), HasSubstr("older checkpoints stay for now"));
  EXPECT_THAT(checkpoint::list_steps(c.checkpoint_folder()), testing::Contains(12));
}

// The parent looks into the store before it forks them.
TEST_F(StoredTraining, RanksOfACommandHaveConnectionsOfTheirOwn) {
  HEARTH_NEEDS_STORE();
  copy_data();
  config::RunConfig expected = on_disk("expected"), c = in_store("forked");
  for (config::RunConfig* run : {&expected, &c}) run->parallelism.data_parallel_shard_degree = 2;
  train(expected);
  const Path file = write_run_file(c);
  for (int start = 0; start < 2; ++start) {  // the second one finds the run done
    RunProcess process({"train", file.string(), "--ranks", "2", "--max-restarts", "1"}, scratch / "log");
    EXPECT_EQ(process.wait(), 0) << read_file(scratch / "log");
  }
  EXPECT_EQ(tensors_of(step_of(c, 12)), tensors_of(step_of(expected, 12)));
}

TEST_F(StoredTraining, ADatasetAboveTheLimitOfTheCacheIsAWarning) {
  HEARTH_NEEDS_STORE();
  copy_data();
  config::RunConfig c = in_store("small-cache");
  int64_t shards = 0;
  for (const FileEntry& entry : files_under(scratch / "data"))
    if (entry.path.native().starts_with("train-")) shards += entry.bytes;
  const auto warnings_with_limit = [&](int64_t bytes) {
    ::setenv("HEARTH_CACHE_LIMIT", fmt::format("{} B", bytes).c_str(), 1);
    run::Run run = run::open_run(c);
    const std::vector<std::string> warnings = run::find_start(run, comm::single()->control()).warnings;
    ::unsetenv("HEARTH_CACHE_LIMIT");
    return warnings;
  };
  const auto [wanted, allowed] = format_bytes_apart(shards, shards - 1);
  EXPECT_THAT(warnings_with_limit(shards - 1),
              ElementsAre(testing::AllOf(HasSubstr("the shards in the store have " + wanted),
                                         HasSubstr("may have " + allowed + " (HEARTH_CACHE_LIMIT)"),
                                         HasSubstr("raise HEARTH_CACHE_LIMIT"))));
  EXPECT_THAT(warnings_with_limit(shards), IsEmpty());
  c.data.path = "data";  // on the disk
  EXPECT_THAT(warnings_with_limit(1), IsEmpty());
}

TEST_F(StoredTraining, WhatAStoreCannotDoIsRefused) {
  HEARTH_NEEDS_STORE();
  copy_data();
  config::RunConfig c = in_store("refused");
  c.job.dump_folder = "s3://bucket/whole-run";
  EXPECT_THAT(error_of([&] { run_training(c, {}); }).what(), HasSubstr("checkpoint.folder"));
  config::RunConfig again = in_store("again");
  train(again);
  config::TrainOptions restart;
  restart.restart = true;
  EXPECT_THAT(error_of([&] { run_training(again, restart); }).what(), HasSubstr("--restart cannot move"));
  const test::CommandResult prune = test::run_hearth("checkpoints prune s3://bucket/again --keep-latest 1");
  EXPECT_EQ(prune.exit_code, 2) << prune.output;
  const std::string run = again.run_folder().string();
  const test::CommandResult pruned = test::run_hearth("checkpoints prune " + run + " --keep-latest 1");
  EXPECT_EQ(pruned.exit_code, 0) << pruned.output;
  EXPECT_THAT(checkpoint::list_steps(again.checkpoint_folder()), ElementsAre(12));
}

}  // namespace
}  // namespace hearth::train
