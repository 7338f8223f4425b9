// SPDX-License-Identifier: Apache-2.0
// A run on arrays of spike counts, from data build to eval.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "formats/npy.h"
#include "infer/eval.h"
#include "tiny_run.h"

namespace hearth::train {
namespace {

using testing::HasSubstr;
using testing::Not;

struct TrainSpikes : ::testing::Test {
  TrainSpikes() { build_tiny_spikes(scratch, "data", 12); }
  config::RunConfig config(const std::string& folder) const {
    config::RunConfig c = tiny_config(scratch);
    c.job.dump_folder = folder;
    return c;
  }
  // A file of 256 weights: one value for counts, one for BOS.
  std::string weights(const std::string& name, float of_counts, float of_bos) const {
    std::vector<float> values(256, of_counts);
    values[255] = of_bos;
    formats::write_npy_vector(scratch / name, values);
    return name;
  }
  test::ScratchFolder scratch;
};

TEST_F(TrainSpikes, AStoppedRunGoesOnWithTheSameNeuronsWhateverTheRanks) {
  const config::RunConfig whole = config("whole");
  const auto expected = train(whole);
  EXPECT_LT(*expected.back().loss, 0.7 * *expected.front().loss);
  config::RunConfig parts = config("parts");
  for (const int64_t steps : {5, 12}) {
    parts.training.steps = steps;
    train(parts);
  }
  expect_same_training(metrics::read_metrics(parts.run_folder() / "metrics.jsonl"), expected);
  config::RunConfig ranks = config("ranks");
  ranks.parallelism.data_parallel_shard_degree = 2;
  const auto on_two = train(ranks);
  for (size_t i = 0; i < expected.size(); ++i)
    if (expected[i].loss) {
      EXPECT_NEAR(*on_two[i].loss, *expected[i].loss, 1e-4) << i;
    }
}

TEST_F(TrainSpikes, TokenWeightsMakeTheLossTheirMean) {
  const auto plain = train(config("plain"));
  config::RunConfig same = config("same"), none_for_bos = config("other");
  same.training.token_weights = weights("same.npy", 2, 2);
  expect_same_training(train(same), plain);  // a power of two changes no bit
  none_for_bos.training.token_weights = weights("other.npy", 1, 1e-6F);
  const auto other = train(none_for_bos);
  // The untrained model gives every token a loss of about log V, so weights hardly change it. Later losses leave BOS
  // out.
  EXPECT_NEAR(*other.front().loss, *plain.front().loss, 0.1);
  EXPECT_NE(other.back().loss, plain.back().loss);
  config::RunConfig wrong = config("wrong");
  wrong.training.token_weights = "data-rec/row-000000.npy";
  EXPECT_EQ(error_of([&] { run_training(wrong, {}); }).code(), ExitCode::kUser);
}

TEST_F(TrainSpikes, AnEditedFileOfTokenWeightsIsNoticedAtAResumeAndAnotherOneIsAChange) {
  config::RunConfig c = config("run");
  c.training.steps = 4;
  c.training.token_weights = weights("w.npy", 2, 3);
  train(c);
  const auto steps_after = [&](int64_t steps) {
    c.training.steps = steps;
    train(c);
    return metrics::read_metrics(c.run_folder() / "metrics.jsonl").back().step;
  };
  EXPECT_EQ(steps_after(5), 5);
  weights("w.npy", 2, 4);
  const Error e = error_of([&] { steps_after(6); });
  EXPECT_EQ(e.code(), ExitCode::kUser);
  EXPECT_EQ(e.message(), fmt::format("{} is not the file that {} was trained with", (scratch / "w.npy").string(),
                                     step_of(c, 5).string()));
  EXPECT_THAT(e.why(), HasSubstr("have the hash ")) << e.why();
  weights("w.npy", 2, 3);
  EXPECT_EQ(steps_after(6), 6);
  c.training.token_weights = weights("other.npy", 2, 4);
  EXPECT_EQ(steps_after(7), 7);
  c.training.token_weights.clear();
  EXPECT_EQ(steps_after(8), 8);
}

// The loss of the held-out recordings, computed from the dataset's own tokens.
TEST_F(TrainSpikes, EvalCountsBitsPerSpikeAndShowsNgramsOfTheSameTokens) {
  config::RunConfig c = config("run");
  c.training.steps = 2;
  train(c);
  const infer::EvalReport report =
      infer::eval_checkpoint({.checkpoint = c.run_folder(), .ngram = {2}, .batch_size = 4}).front();
  const data::Dataset dataset = data::Dataset::open(scratch / "data");
  const data::Split& split = dataset.split("validation");
  std::vector<int32_t> tokens(static_cast<size_t>(split.tokens()));
  split.read(0, tokens);
  double spikes = 0;
  for (size_t i = 1; i < tokens.size(); ++i) spikes += tokens[i] == 255 ? 0 : tokens[i];
  EXPECT_GT(spikes, 0);
  EXPECT_EQ(report.validation.counted_units, spikes);
  EXPECT_NEAR(report.bits_per_unit(), report.validation.loss_sum / std::log(2.0) / spikes, 1e-12);
  ASSERT_EQ(report.ngram.size(), 2u);
  EXPECT_LT(report.ngram[1], report.ngram[0]);
  const std::string text = infer::format_report(report);
  EXPECT_THAT(text, Not(HasSubstr("byte"))) << text;
  EXPECT_THAT(text, HasSubstr("bits per spike")) << text;
  EXPECT_THAT(text, HasSubstr("nats per token of the same recordings")) << text;
}

// Unigrams, computed here: the frequencies of tokens in the run's own recordings.
TEST_F(TrainSpikes, NgramsOfOtherRecordingsCountThoseOfTheRun) {
  build_tiny_spikes(scratch, "other", 12, 7);
  config::RunConfig c = config("run");
  c.training.steps = 1;
  train(c);
  const auto tokens_of = [&](const std::string& name, const std::string& split_name) {
    const data::Dataset dataset = data::Dataset::open(scratch / name);
    const data::Split& split = dataset.split(split_name);
    std::vector<int32_t> tokens(static_cast<size_t>(split.tokens()));
    split.read(0, tokens);
    return tokens;
  };
  std::map<int32_t, double> counts;
  const auto counted = tokens_of("data", "train"), scored = tokens_of("other", "validation");
  for (const int32_t token : counted) ++counts[token];
  double nats = 0;
  for (const int32_t token : scored)
    nats -= std::log((counts[token] + 1) / (static_cast<double>(counted.size()) + 256));
  const auto reports =
      infer::eval_checkpoint({.checkpoint = c.run_folder(), .data = {(scratch / "other").string()}, .ngram = {1}});
  EXPECT_NEAR(reports[0].ngram[0], nats / static_cast<double>(scored.size()), 1e-12);
}

TEST_F(TrainSpikes, EvalLeavesOutTheBosThatTheObjectiveLeavesOut) {
  config::RunConfig c = config("run");
  c.training.steps = 2;
  c.objective.kind = config::ObjectiveKind::kSpikeLm;
  c.objective.count_bos = false;
  train(c);
  const infer::EvalReport report = infer::eval_checkpoint({.checkpoint = c.run_folder(), .batch_size = 4}).front();
  const data::Dataset dataset = data::Dataset::open(scratch / "data");
  std::vector<int32_t> tokens(static_cast<size_t>(dataset.split("validation").tokens()));
  dataset.split("validation").read(0, tokens);
  EXPECT_EQ(report.validation.counted_tokens,
            static_cast<double>(tokens.size()) - static_cast<double>(std::count(tokens.begin(), tokens.end(), 255)));
}

}  // namespace
}  // namespace hearth::train
