// SPDX-License-Identifier: Apache-2.0
// A resumed run equals an uninterrupted one: loss, gradient norm and weights, bit for bit.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <functional>
#include <map>
#include <tuple>

#include "checkpoint/retain.h"
#include "run_process.h"
#include "runfolder/names.h"
#include "runfolder/run_folder.h"
#include "tiny_run.h"

namespace hearth::train {
namespace {

using testing::HasSubstr;
using testing::Not;

config::RunConfig named(const Path& folder, const std::string& name) {
  config::RunConfig c = tiny_config(folder);
  c.job.dump_folder = name;
  c.validation.freq = 5;
  return c;
}

struct Resume : TinyData {};

// Trains a model whole and in parts; `change`: of the tiny model. Returns the last checkpoint's tensors.
std::map<std::string, std::vector<std::byte>> goes_on_with_the_same_numbers(
    const Path& folder, const std::function<void(config::Model&)>& change) {
  config::RunConfig whole = named(folder, "whole"), parts = named(folder, "parts");
  if (change) change(whole.model), change(parts.model);
  const auto expected = train(whole);
  EXPECT_EQ(expected.size(), 13u);
  for (const int64_t steps : {3, 4, 9, 12}) {
    parts.training.steps = steps;
    train(parts);
  }
  expect_same_training(metrics::read_metrics(parts.run_folder() / "metrics.jsonl"), expected);
  const auto tensors = tensors_of(step_of(whole, 12));
  EXPECT_EQ(tensors_of(step_of(parts, 12)), tensors);
  return tensors;
}

TEST_F(Resume, AfterAStopTheNumbersAreThoseOfAnUninterruptedRun) { goes_on_with_the_same_numbers(scratch, {}); }

TEST_F(Resume, ACompleteTrainingIsMarkedUntilItGoesOn) {
  config::RunConfig c = named(scratch, "run");
  const Path mark = c.run_folder() / runfolder::kDoneFile;
  train(c);
  EXPECT_EQ(read_file(mark), "{\"step\": 12}\n");
  c.training.steps = 1'000'000;
  {
    RunProcess process({"train", write_run_file(c).string()}, scratch / "log");
    EXPECT_TRUE(wait_until(process, [&] { return steps_logged(c) > 12; })) << read_file(scratch / "log");
    EXPECT_FALSE(path_exists(mark));
    process.signal(SIGKILL);
  }
  c.training.steps = 13;
  train(c);
  EXPECT_EQ(read_file(mark), "{\"step\": 13}\n");
}

TEST_F(Resume, AModelWithBiasesAndNormsOfHeadsGoesOnWithTheSameNumbers) {
  const auto tensors = goes_on_with_the_same_numbers(scratch, [](config::Model& model) {
    model.head_dim = 12;
    model.qkv_bias = model.qk_norm = true;
  });
  // torchtitan's and torch's names, which never change.
  for (const char* name : {"wq.bias", "wk.bias", "wv.bias", "q_norm.weight", "k_norm.weight"}) {
    const std::string weight = fmt::format("layers.1.attention.{}", name);
    EXPECT_TRUE(tensors.contains(weight)) << weight;
    EXPECT_TRUE(tensors.contains("optimizer.state." + weight + ".exp_avg")) << weight;
  }
}

TEST_F(Resume, AnotherNumberOfPrefetchThreadsChangesNothing) {
  config::RunConfig whole = named(scratch, "whole");
  const auto expected = train(whole);

  config::RunConfig parts = named(scratch, "parts");
  parts.data.prefetch_threads = 3;
  parts.data.prefetch_steps = 7;
  parts.training.steps = 5;
  train(parts);
  parts.data.prefetch_threads = 1;
  parts.data.prefetch_steps = 1;
  parts.training.steps = 12;
  expect_same_training(train(parts), expected);
  EXPECT_EQ(tensors_of(step_of(parts, 12)), tensors_of(step_of(whole, 12)));
}

TEST_F(Resume, ADamagedNewestCheckpointIsNamedAndTheOneBeforeIsUsed) {
  config::RunConfig c = named(scratch, "run");
  const auto expected = train(c);
  const auto tensors = tensors_of(step_of(c, 12));

  const Path victim = step_of(c, 12) / "__R_0.distcp";
  std::string content = read_file(victim);
  content[content.size() / 2] ^= 1;
  write_file_atomic(victim, content);
  // The done run reads its checkpoint, too.
  expect_same_training(train(c), expected);
  EXPECT_EQ(tensors_of(step_of(c, 12)), tensors);
  const std::string log = read_file(c.run_folder() / "logs/rank-00000.log");
  EXPECT_THAT(log, HasSubstr("step-00000012 is damaged and not used: "));
  EXPECT_THAT(log, HasSubstr("__R_0.distcp, bytes "));
  EXPECT_THAT(log, HasSubstr("continuing after step 8 from"));
}

// The rank that loads the damaged part tells all. Each rank reads the file of its own rank alone.
TEST_F(Resume, DamageThatAnyRankFindsMakesAllUseTheOneBefore) {
  config::RunConfig whole = named(scratch, "whole");
  whole.parallelism.data_parallel_shard_degree = 4;
  whole.parallelism.zero_stage = 3;
  const auto expected = train(whole);
  for (const int64_t victim : {0, 2, 3}) {
    config::RunConfig c = named(scratch, fmt::format("run{}", victim));
    c.parallelism = whole.parallelism;
    c.training.steps = 9;
    train(c);
    const Path file = step_of(c, 9) / fmt::format("__R_{}.distcp", victim);
    std::string content = read_file(file);
    content[content.size() / 3] ^= 4;
    write_file_atomic(file, content);
    c.training.steps = 12;
    expect_same_training(train(c), expected);
    EXPECT_EQ(tensors_of(step_of(c, 12)), tensors_of(step_of(whole, 12)));
    const std::vector<metrics::Event> events = metrics::read_events(c.run_folder() / "metrics.jsonl");
    ASSERT_EQ(events.size(), 1U) << "the damaged checkpoint leaves no event";
    EXPECT_EQ(events[0].step, 8);
    for (const int64_t rank : {0, 1}) {
      const std::string log = read_file(c.run_folder() / fmt::format("logs/rank-{:05}.log", rank));
      EXPECT_THAT(log, HasSubstr("step-00000009 is damaged and not used: "));
      EXPECT_THAT(log, HasSubstr(fmt::format("__R_{}.distcp, bytes ", victim)));
    }
  }
}

TEST_F(Resume, WhereTheItemsOfEveryCheckpointAreDamagedTheRunStopsAndNothingIsDeleted) {
  config::RunConfig c = named(scratch, "run");
  c.parallelism.data_parallel_shard_degree = 2;
  train(c);
  for (const int64_t step : {4, 8, 12}) {
    const Path file = step_of(c, step) / "__R_1.distcp";
    std::string content = read_file(file);
    content[content.size() / 2] ^= 1;
    write_file_atomic(file, content);
  }
  const Error error = error_of([&] { run_training(c, {}); });
  EXPECT_EQ(error.code(), ExitCode::kDamaged);
  EXPECT_THAT(error.message(), HasSubstr("is good"));
  for (const char* step : {"step-00000004: ", "step-00000008: ", "step-00000012: "})
    EXPECT_THAT(error.why(), HasSubstr(step)) << error.what();
  EXPECT_THAT(error.fix(), HasSubstr("--restart")) << error.what();
  for (const int64_t step : {4, 8, 12}) EXPECT_TRUE(path_exists(step_of(c, step) / "hearth.json"));
}

TEST_F(Resume, WhereEveryCheckpointIsDamagedTheRunStopsAndDoesNotStartOver) {
  config::RunConfig c = named(scratch, "run");
  train(c);
  for (const int64_t step : {4, 8, 12}) write_file_atomic(step_of(c, step) / ".metadata", "");
  const Error error = error_of([&] { run_training(c, {}); });
  EXPECT_EQ(error.code(), ExitCode::kDamaged);
  EXPECT_THAT(error.why(), HasSubstr("step-00000004")) << error.what();
  EXPECT_THAT(error.fix(), HasSubstr("--restart")) << error.what();
}

TEST_F(Resume, AFinishedRunHasNothingToDo) {
  config::RunConfig c = named(scratch, "run");
  const auto first = train(c);
  const std::string file = read_file(c.run_folder() / "metrics.jsonl");
  train(c);
  EXPECT_EQ(read_file(c.run_folder() / "metrics.jsonl"), file);
}

TEST_F(Resume, WithAnEditedModelItIsRefused) {
  config::RunConfig c = named(scratch, "run");
  train(c);
  c.model.hidden_dim = 96;
  c.training.steps = 20;
  c.optimizer.lr = 1e-3;
  const Error error = error_of([&] { run_training(c, {}); });
  EXPECT_EQ(error.code(), ExitCode::kUser);
  EXPECT_THAT(error.message(), HasSubstr("model.hidden_dim: 64 -> 96")) << error.what();
  EXPECT_THAT(error.message(), Not(HasSubstr("optimizer.lr"))) << error.what();
}

TEST_F(Resume, WithAnEditedLearningRateItGoesOnAndSaysSo) {
  config::RunConfig c = named(scratch, "run");
  train(c);
  c.training.steps = 14;
  c.optimizer.lr = 1e-3;
  ::testing::internal::CaptureStdout();
  const auto records = train(c);
  const std::string output = ::testing::internal::GetCapturedStdout();
  EXPECT_THAT(output, HasSubstr("changed: optimizer.lr: 0.01 -> 0.001")) << output;
  EXPECT_THAT(output, HasSubstr("changed: training.steps: 12 -> 14")) << output;
  EXPECT_THAT(output, HasSubstr("continuing after step 12 from ")) << output;
  EXPECT_EQ(*records[12].lr, 1e-2);
  EXPECT_EQ(*records[13].lr, 1e-3);
}

TEST_F(Resume, WithADatasetOfOtherTextItIsRefused) {
  config::RunConfig c = named(scratch, "run");
  train(c);
  std::filesystem::remove_all(scratch / "data");
  build_tiny_data(scratch, 500);
  c.training.steps = 20;
  const Error error = error_of([&] { run_training(c, {}); });
  EXPECT_EQ(error.code(), ExitCode::kUser);
  EXPECT_THAT(error.message(), HasSubstr("is not the dataset that")) << error.what();
}

TEST_F(Resume, RestartMovesTheOldRunAsideAndBeginsAgain) {
  config::RunConfig c = named(scratch, "run");
  const auto first = train(c);
  const auto tensors = tensors_of(step_of(c, 12));
  config::TrainOptions options;
  options.restart = true;
  expect_same_training(train(c, options), first);
  EXPECT_EQ(tensors_of(step_of(c, 12)), tensors);
  expect_same_training(metrics::read_metrics(c.run_folder() / "old-1" / "metrics.jsonl"), first);
  EXPECT_EQ(tensors_of(c.run_folder() / "old-1" / "checkpoints" / "step-00000012"), tensors);
  train(c, options);
  EXPECT_TRUE(path_exists(c.run_folder() / "old-2" / "checkpoints" / "step-00000012"));
}

TEST_F(Resume, ABranchGoesOnFromAnotherRunsCheckpointWithItsOptimizerAndData) {
  config::RunConfig trunk = named(scratch, "trunk");
  const auto expected = train(trunk);
  config::RunConfig branch = named(scratch, "branch");
  branch.checkpoint.initial_load_path = "trunk/checkpoints/step-00000008";
  branch.checkpoint.initial_load_model_only = false;
  auto records = train(branch);
  // The same schedule: the same steps 9 to 12. The new folder's metrics begin with step 9.
  ASSERT_EQ(records.size(), 4u);
  for (size_t i = 0; i < 4; ++i) EXPECT_EQ(records[i].loss, expected[9 + i].loss);
  EXPECT_EQ(tensors_of(step_of(branch, 12)), tensors_of(step_of(trunk, 12)));

  // A cool-down: the last third of twelve steps decays to zero, and the first eight are the trunk's.
  config::RunConfig cooldown = named(scratch, "cooldown");
  cooldown.checkpoint.initial_load_path = "trunk/checkpoints/step-00000008";
  cooldown.checkpoint.initial_load_model_only = false;
  cooldown.lr_scheduler.decay_type = config::DecayType::kLinear;
  cooldown.lr_scheduler.decay_ratio = 1.0 / 3;
  records = train(cooldown);
  ASSERT_EQ(records.size(), 4u);
  EXPECT_EQ(records[0].loss, expected[9].loss) << "the weights before the first decayed step are the trunk's";
  for (size_t i = 1; i < 4; ++i) EXPECT_LT(*records[i].lr, *records[i - 1].lr);
}

TEST_F(Resume, ACheckpointTellsWhereItCameFromAndHowFarItIs) {
  config::RunConfig c = named(scratch, "trunk");
  c.training.seed = 5;
  train(c);
  c.training.steps = 14;
  train(c);
  config::RunConfig branch = named(scratch, "branch");
  branch.training.seed = 5;
  branch.checkpoint.initial_load_path = "trunk/checkpoints/step-00000008";
  branch.checkpoint.initial_load_model_only = false;
  train(branch);
  const std::string trunk8 = (scratch / "trunk/checkpoints/step-00000008").string();
  const std::vector<std::tuple<config::RunConfig, int64_t, std::string>> expected = {
      {c, 4, ""},
      {c, 8, "step-00000004"},
      {c, 12, "step-00000008"},
      {c, 14, "step-00000012"},  // resumed from it
      {branch, 12, trunk8}};
  for (const auto& [run, step, parent] : expected) {
    const checkpoint::Reader reader = checkpoint::Reader::open(step_of(run, step));
    const checkpoint::Manifest& m = reader.manifest();
    EXPECT_EQ(m.parent, parent) << step;
    EXPECT_EQ(m.step, step);
    EXPECT_EQ(m.tokens_seen, step * 8 * 32);
    const data::DataState state = data_state_at(step_of(run, step));
    EXPECT_EQ(state.next_sample, static_cast<uint64_t>(step * 8));
    EXPECT_EQ(state.seed, 5u);
  }
}

TEST_F(Resume, WeightsOnlyBeginsANewTrainingAtStepZero) {
  config::RunConfig old = named(scratch, "old");
  const auto before = train(old);
  config::RunConfig fresh = named(scratch, "fresh");
  fresh.checkpoint.initial_load_path = "old/checkpoints/step-00000012";
  const auto records = train(fresh);
  ASSERT_EQ(records.size(), 13u);
  EXPECT_EQ(records[0].step, 0);
  EXPECT_LT(*records[0].validation_loss, *before[0].validation_loss);
  EXPECT_EQ(records[1].tokens, before[1].tokens);
}

TEST_F(Resume, TwoTrainingsInOneFolderTheSecondRefuses) {
  config::RunConfig c = named(scratch, "run");
  const runfolder::RunFolder first(c);
  const Error error = error_of([&] { run_training(c, {}); });
  EXPECT_EQ(error.code(), ExitCode::kUser);
  EXPECT_THAT(error.message(), HasSubstr("another training runs in")) << error.what();
}

}  // namespace
}  // namespace hearth::train
