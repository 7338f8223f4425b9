// SPDX-License-Identifier: Apache-2.0
// Several sources in one run: stopped and resumed, with changed weights, measured on named sets.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>

#include "checkpoint/manifest.h"
#include "data/batch/loader.h"
#include "data/shard/dataset.h"
#include "tiny_run.h"

namespace hearth::train {
namespace {

using testing::HasSubstr;
using testing::Not;

// Two datasets, SCRATCH/web/data and SCRATCH/books/data.
config::RunConfig mixed_config(const Path& scratch, const std::string& name) {
  if (!path_exists(scratch / "web")) {
    build_tiny_data(scratch / "web", 300);
    build_tiny_data(scratch / "books", 500);
  }
  config::RunConfig c = tiny_config(scratch);
  c.job.dump_folder = name;
  c.data.path.clear();
  c.data.source = {{"web/data", 3, 0}, {"books/data", 1, 0}};
  c.validation.freq = 6;
  return c;
}

checkpoint::Manifest manifest_of(const Path& folder) {
  const Path file = folder / checkpoint::kManifestFile;
  return checkpoint::parse_manifest(read_file(file), file);
}

TEST(TrainMixture, AStoppedRunWithSegmentsGoesOnAsTheUninterruptedOne) {
  test::ScratchFolder scratch;
  config::RunConfig whole = mixed_config(scratch, "whole");
  whole.data.segment = {{8 * 32 * 5 + 100, {1, 3}}};  // in the middle of step 6
  const auto expected = train(whole);
  config::RunConfig parts = whole;
  parts.job.dump_folder = "parts";
  for (const int64_t steps : {3, 6, 7, 12}) {
    parts.training.steps = steps;
    train(parts);
  }
  expect_same_training(metrics::read_metrics(parts.run_folder() / "metrics.jsonl"), expected);
  EXPECT_EQ(tensors_of(step_of(parts, 12)), tensors_of(step_of(whole, 12)));
  const data::DataState state = data_state_at(step_of(whole, 12));
  EXPECT_EQ(state.sources.size(), 2u);
  EXPECT_EQ(state.segments, (std::vector<data::MixtureSegment>{{0, {3, 1}}, {44, {1, 3}}}));
  EXPECT_EQ(data_state_at(step_of(whole, 4)).segments.size(), 1u);
}

TEST(TrainMixture, WeightsEditedAtAResumeHoldFromTheNextStepOn) {
  test::ScratchFolder scratch;
  config::RunConfig c = mixed_config(scratch, "run");
  c.training.steps = 4;
  const auto first = train(c);
  c.data.source[0].weight = 1;
  c.training.steps = 12;
  const auto all = train(c);
  EXPECT_EQ(all[4].loss, first[4].loss);
  EXPECT_EQ(data_state_at(step_of(c, 12)).segments, (std::vector<data::MixtureSegment>{{0, {3, 1}}, {32, {1, 1}}}));
  c.data.source.pop_back();
  c.training.steps = 13;
  const Error error = error_of([&] { run_training(c, {}); });
  EXPECT_THAT(error.message(), HasSubstr("that is not among the sources")) << error.what();
}

// Checkpoints of the time before mixtures have one dataset's hash and no more.
TEST(TrainMixture, ACheckpointThatOnlyNamesItsDatasetGoesOnAndMayGetASecondSource) {
  test::ScratchFolder scratch;
  config::RunConfig whole = mixed_config(scratch, "whole");
  whole.data.source.clear();
  whole.data.path = "web/data";
  const auto expected = train(whole);
  config::RunConfig parts = whole;
  parts.job.dump_folder = "parts";
  parts.training.steps = 4;
  train(parts);
  checkpoint::Manifest manifest = manifest_of(step_of(parts, 4));
  data::DataState state = data_state_at(step_of(parts, 4));
  EXPECT_EQ(state.sources, std::vector<std::string>{manifest.dataset_hash});
  state.sources.clear();
  state.segments.clear();
  manifest.states["data"] = data::format_data_state(state);
  const std::string text = checkpoint::format_manifest(manifest);
  EXPECT_THAT(text, Not(HasSubstr("segments")));
  write_file_atomic(step_of(parts, 4) / checkpoint::kManifestFile, text);
  parts.training.steps = 8;
  train(parts);
  parts.training.steps = 12;
  expect_same_training(train(parts), expected);
  parts.data.path.clear();
  parts.data.source = {{"books/data", 1, 0}, {"web/data", 1, 0}};
  parts.training.steps = 14;
  train(parts);
  EXPECT_EQ(data_state_at(step_of(parts, 14)).segments, (std::vector<data::MixtureSegment>{{0, {1, 0}}, {96, {1, 1}}}));
}

// Killed after step 8: later checkpoints do not exist.
TEST(TrainMixture, ARunInGptNeoxsOrderGoesOnAsTheUninterruptedOne) {
  test::ScratchFolder scratch;
  config::RunConfig whole = mixed_config(scratch, "whole");
  whole.data.order = config::DataOrder::kNeox;
  whole.data.stride = config::Stride::kNeox;
  whole.data.weight_rule = config::WeightRule::kNeox;
  train(whole);
  EXPECT_EQ(data_state_at(step_of(whole, 8)).order_samples, 12u * 8);
  EXPECT_EQ(data_state_at(step_of(whole, 8)).order_version, 2);
  config::RunConfig parts = whole;
  parts.job.dump_folder = "parts";
  std::filesystem::copy(whole.run_folder(), parts.run_folder(), std::filesystem::copy_options::recursive);
  for (const std::string& name : list_folder(parts.checkpoint_folder()))
    if (name > step_of(parts, 8).filename().string()) remove_tree(parts.checkpoint_folder() / name);
  train(parts);
  EXPECT_EQ(tensors_of(step_of(parts, 12)), tensors_of(step_of(whole, 12)));
  parts.training.steps = 14;  // a longer run keeps its tables
  train(parts);
  EXPECT_EQ(data_state_at(step_of(parts, 14)).order_samples, 12u * 8);
  parts.data.order = config::DataOrder::kShuffle;
  const Error error = error_of([&] { run_training(parts, {}); });
  EXPECT_THAT(error.message(), HasSubstr("data.order: \"neox\" -> \"shuffle\"")) << error.what();
}

TEST(TrainMixture, EachNamedSetHasALossAndTheTotalIsTheMeanOverTheirTokens) {
  test::ScratchFolder scratch;
  config::RunConfig c = mixed_config(scratch, "named");
  const auto together = train(c);
  c.job.dump_folder = "sets";
  c.validation.set = {{"web", "web/data"}, {"books", "books/data"}};
  const auto sets = train(c);
  const auto tokens = [&scratch](const char* name) {
    return static_cast<double>(data::Dataset::open(scratch / name / "data").split("validation").tokens() - 1);
  };
  for (const size_t step : {0, 6, 12}) {
    EXPECT_TRUE(together[step].validation_losses.empty());
    const auto& losses = sets[step].validation_losses;
    ASSERT_EQ(losses.size(), 2u) << step;
    EXPECT_NE(losses.at("web"), losses.at("books"));
    const double mean =
        (losses.at("web") * tokens("web") + losses.at("books") * tokens("books")) / (tokens("web") + tokens("books"));
    EXPECT_NEAR(*sets[step].validation_loss, mean, 1e-12);
    EXPECT_NEAR(*together[step].validation_loss, mean, 1e-12);
  }
  EXPECT_EQ(manifest_of(step_of(c, 12)).metrics.at("validation_loss.web"), sets[12].validation_losses.at("web"));
}

TEST(TrainMixture, ASetMeasuresTheSplitThatItNames) {
  test::ScratchFolder scratch;
  config::RunConfig c = mixed_config(scratch, "named");
  data::BuildOptions options;
  options.out = scratch / "cut";
  for (const int i : {0, 1, 2, 3}) options.paths.push_back(scratch / "web" / "text" / fmt::format("{}.txt", i));
  options.rules.split = "2,1,1";
  data::BuildProgress progress;
  data::build_dataset(options, progress);
  c.training.steps = 6;
  c.validation.set = {{"a", "cut"}, {"b", "cut", "validation"}, {"c", "cut", "test"}, {"d", "cut", "train"}};
  const auto losses = train(c)[6].validation_losses;
  ASSERT_EQ(losses.size(), 4u);
  EXPECT_EQ(losses.at("a"), losses.at("b"));
  EXPECT_NE(losses.at("b"), losses.at("c"));
  EXPECT_NE(losses.at("c"), losses.at("d"));

  // A missing split, and a split of the training.
  c.validation.set = {{"web", "web/data", "test"}};
  EXPECT_THAT(error_of([&] { run_training(c, {}); }).message(), HasSubstr("has no split \"test\""));
  c.validation.set = {{"web", "web/data", "train"}};
  EXPECT_EQ(error_of([&] { run_training(c, {}); }).message(), "validation set \"web\" is also training data");
}

TEST(TrainMixture, DamageStopsARunAndWithSubstitutesItGoesOnAndCountsThem) {
  test::ScratchFolder scratch;
  build_tiny_data(scratch, 4000);
  config::RunConfig c = tiny_config(scratch);
  const data::DatasetManifest manifest = data::read_manifest(scratch / "data");
  const data::ShardEntry& entry = manifest.find_split("train")->shards.front();
  std::string bytes = read_file(scratch / "data" / entry.file);
  bytes[bytes.size() / 2] ^= 1;  // one block of several
  write_file_atomic(scratch / "data" / entry.file, bytes);
  c.training.steps = 40;
  EXPECT_EQ(error_of([&] { run_training(c, {}); }).code(), ExitCode::kDamaged);
  c.job.dump_folder = "on";
  c.data.on_damage = config::OnDamage::kSubstitute;
  c.parallelism.data_parallel_shard_degree = 2;
  int64_t substituted = 0;
  const auto records = train(c);
  for (const auto& record : records) substituted += record.substituted;
  EXPECT_EQ(records.size(), 40u);
  EXPECT_GT(substituted, 0);
  EXPECT_LT(substituted, 40 * 8);

  // Every step before the damage is done and recorded, on any number of ranks.
  const auto damaged = std::find_if(records.begin(), records.end(), [](const auto& r) { return r.substituted > 0; });
  c.data.on_damage = config::OnDamage::kStop;
  for (const int64_t ranks : {1, 2, 4}) {
    c.job.dump_folder = fmt::format("stopped-{}", ranks);
    c.parallelism.data_parallel_shard_degree = ranks;
    EXPECT_EQ(error_of([&] { run_training(c, {}); }).code(), ExitCode::kDamaged);
    const auto done = metrics::read_metrics(c.run_folder() / "metrics.jsonl");
    EXPECT_EQ(done.empty() ? 0 : done.back().step, damaged->step - 1) << ranks;
  }
}

TEST(TrainMixture, ASetThatIsTrainedOnAndASourceSeenTooOftenAreRefusedAtTheStart) {
  test::ScratchFolder scratch;
  config::RunConfig c = mixed_config(scratch, "run");
  data::BuildOptions options;
  options.out = scratch / "all";
  options.paths = {scratch / "web" / "text" / "0.txt"};
  data::BuildProgress progress;
  data::build_dataset(options, progress);
  c.validation.set = {{"mine", "all"}};
  c.data.source.push_back({"all", 0.1, 0});
  EXPECT_EQ(error_of([&] { run_training(c, {}); }).message(), "validation set \"mine\" is also training data");
  c.validation.set.clear();
  c.data.source[2] = {"all", 8, 1};
  c.training.steps = 100;
  const Error error = error_of([&] { run_training(c, {}); });
  EXPECT_THAT(error.message(), HasSubstr("data.source.2.epochs_max is 1")) << error.what();
  EXPECT_FALSE(path_exists(c.checkpoint_folder()) && !list_folder(c.checkpoint_folder()).empty());
}

}  // namespace
}  // namespace hearth::train
