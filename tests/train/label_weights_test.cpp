// SPDX-License-Identifier: Apache-2.0
// Weights and label masks of the data, in training and validation.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <nlohmann/json.hpp>

#include "comm/group.h"
#include "data/arrow_support.h"
#include "data/shard/dataset.h"
#include "formats/npy.h"
#include "infer/eval.h"
#include "initial_weights.h"
#include "run/run.h"
#include "run/saver.h"
#include "support/python.h"

namespace hearth::train {
namespace {

using testing::HasSubstr;

using nlohmann::json;

// Lines of a prompt and an answer; only answers count. With `key` the lines have different weights.
void build_prompts(const Path& folder, const std::string& key, double validation = 0.3) {
  std::string lines;
  for (uint64_t i = 0; i < 60; ++i)
    lines += json{{"prompt", tiny_text(i, 5 + static_cast<int64_t>(i % 20))},
                  {"answer", tiny_text(1000 + i, 3 + static_cast<int64_t>(i % 13))},
                  {"w", 0.25 * static_cast<double>(i % 5 + 1)}}
                 .dump() +
             "\n";
  make_folders(folder / "lines");
  write_file_atomic(folder / "lines" / "a.jsonl", lines);
  data::BuildOptions options;
  options.out = folder / "data";
  options.paths = {folder / "lines"};
  options.rules.validation = validation;
  options.rules.read.text_keys = {"prompt", "answer"};
  options.rules.read.text_join = "";
  options.rules.read.loss_keys = {"answer"};
  options.rules.read.weights_key = key;
  data::BuildProgress progress;
  data::build_dataset(options, progress);
}

std::string oracle(const std::string& arguments) {
  const auto run = test::run_python("tests/train/label_loss.py " + arguments);
  EXPECT_EQ(run.exit_code, 0) << run.output;
  return run.output;
}

// Sixteen rows with labels. Our windows are the same tokens, one window a row.
TEST(LabelWeightsOfRows, GiveTheLossOfLlamaForCausalLMWithTheSameLabels) {
  HEARTH_NEEDS_ARROW();
  const test::ScratchFolder scratch;
  oracle("write " + (scratch / "rows").string());
  data::BuildOptions options;
  options.out = scratch / "data";
  options.paths = {scratch / "rows"};
  options.rules.tokenizer = "ids:258";
  options.rules.read.text_keys = {"input_ids"};
  options.rules.read.labels_key = "labels";
  data::BuildProgress progress;
  data::build_dataset(options, progress);

  config::RunConfig c = tiny_config(scratch);
  c.training.global_batch_size = 16;  // all rows in one step
  c.training.local_batch_size = 4;
  c.training.steps = 1;
  c.checkpoint.interval = 0;
  const Path initial = save_initial_weights(c);
  const json spec = {{"L", c.model.n_layers},
                     {"H", c.model.n_heads},
                     {"G", c.model.n_kv_heads},
                     {"norm_eps", c.model.norm_eps},
                     {"rope_theta", c.model.rope_theta}};
  write_file_atomic(scratch / "spec.json", spec.dump());
  std::vector<float> weights;  // every third token has weight 0
  for (int id = 0; id < 258; ++id) weights.push_back(id % 3 == 0 ? 0 : static_cast<float>(id) / 100);
  formats::write_npy_vector(scratch / "weights.npy", weights);
  const json theirs =
      json::parse(oracle(fmt::format("loss {} {} {} {}", initial.string(), (scratch / "rows").string(),
                                     (scratch / "spec.json").string(), (scratch / "weights.npy").string())));
  const double loss = theirs["loss"].get<double>();
  EXPECT_GT(loss, 5);
  EXPECT_NEAR(*train(c).back().loss, loss, 1e-5);
  c.job.dump_folder = "weighted";
  c.training.token_weights = "weights.npy";
  EXPECT_NEAR(*train(c).back().loss, theirs["weighted"].get<double>(), 1e-5);
  for (const int64_t batch : {1, 5}) {
    const infer::EvalReport report =
        infer::eval_checkpoint(
            {.checkpoint = initial, .data = {(scratch / "data").string()}, .split = "train", .batch_size = batch})
            .front();
    EXPECT_EQ(report.validation.counted_tokens, theirs["counted"].get<double>());
    EXPECT_NEAR(report.validation.loss(), loss, 1e-5);
  }
}

struct WeightedRun : ::testing::TestWithParam<const char*> {
  test::ScratchFolder scratch;
};
INSTANTIATE_TEST_SUITE_P(All, WeightedRun, ::testing::Values("", "w"),
                         [](const auto& info) { return std::string(*info.param == 0 ? "Mask" : "Weights"); });

TEST_P(WeightedRun, HasOneLossAndGradientHoweverAStepIsCut) {
  build_prompts(scratch, GetParam());
  std::vector<metrics::StepRecord> one;
  // Ranks, and sequences of a micro-batch: 4, 2, 1 micro-batches on one rank, then 2 and 1 on each of several ranks.
  const std::vector<std::pair<int64_t, int64_t>> cuts = {{1, 2}, {1, 4}, {1, 8}, {2, 2}, {4, 2}};
  for (const auto& [ranks, sequences] : cuts) {
    config::RunConfig c = tiny_config(scratch);
    c.job.dump_folder = fmt::format("run{}-{}", ranks, sequences);
    c.training.dtype = DType::kFloat64;
    c.training.steps = 8;
    c.training.local_batch_size = sequences;
    c.parallelism.data_parallel_shard_degree = ranks;
    c.validation.freq = 4;
    const auto records = train(c);
    if (one.empty()) one = records;
    ASSERT_EQ(records.size(), 9u);
    EXPECT_LT(*records.back().loss, *records[1].loss);
    expect_curves_near(records, one);
  }
}

// A model of zeros gives every token the same loss, so the counted sums have a closed form.
TEST_P(WeightedRun, EvaluationCountsWhatTheDataSay) {
  build_prompts(scratch, GetParam());
  config::RunConfig c = tiny_config(scratch);
  run::Run run = run::open_run(c);
  const auto group = comm::single();
  parallel::ShardedWeights zeros(run.plan, run.precision, *group, parallel::ShardedWeights::Mode::kTraining);
  run::save_state(zeros, run.folder.checkpoints(), run.manifest({}, {}));
  const infer::EvalReport report = infer::eval_checkpoint({.checkpoint = step_of(c, 0), .batch_size = 3}).front();
  const data::Dataset dataset = data::Dataset::open(scratch / "data");
  const data::Split& split = dataset.split("validation");
  std::vector<float> weights(static_cast<size_t>(split.tokens()));
  std::vector<int32_t> tokens(weights.size());
  split.read_weights(0, weights);
  split.read(0, tokens);
  double counted = 0, bytes = 0;
  for (size_t i = 1; i < weights.size(); ++i) {
    counted += static_cast<double>(weights[i]);
    bytes += tokens[i] < 256 ? static_cast<double>(weights[i]) : 0;
  }
  EXPECT_LT(counted, 0.7 * static_cast<double>(split.tokens()));
  EXPECT_NEAR(report.validation.counted_tokens, counted, 1e-6);
  EXPECT_NEAR(report.validation.counted_units, bytes, 1e-6);
  EXPECT_NEAR(report.validation.loss(), std::log(258.0), 1e-6);
  EXPECT_THAT(infer::format_report(report), HasSubstr(*GetParam() == 0 ? "tokens counted " : "weights counted "));
  const Error ngram = error_of([&] { infer::eval_checkpoint({.checkpoint = step_of(c, 0), .ngram = {2}}); });
  EXPECT_EQ(ngram.message(), "--ngram cannot evaluate data that weight their tokens");
}

TEST_P(WeightedRun, LearnsHiddenTokensOfWhatCountsAlone) {
  build_prompts(scratch, GetParam());
  config::RunConfig c = tiny_config(scratch);
  c.model.vocab_size = 259;  // a row for the mask
  c.objective.kind = config::ObjectiveKind::kMaskedLm;
  c.objective.mask_id = 258;
  c.training.steps = 20;
  c.validation.freq = 10;
  const auto records = train(c);
  EXPECT_LT(*records.back().loss, *records[1].loss);
  EXPECT_LT(*records.back().validation_loss, *records.front().validation_loss);
}

TEST_P(WeightedRun, SaysAtItsStartWhatShareOfTheTokensCounts) {
  build_prompts(scratch, GetParam());
  config::RunConfig c = tiny_config(scratch);
  c.training.steps = 1;
  ::testing::internal::CaptureStdout();
  train(c);
  const std::string output = ::testing::internal::GetCapturedStdout();
  const data::Dataset dataset = data::Dataset::open(scratch / "data");
  const data::Split& split = dataset.split("train");
  EXPECT_THAT(output, HasSubstr(fmt::format("data: {} of {} tokens count (", split.weights()->counted, split.tokens())))
      << output;
}

TEST(WeightedRuns, WhereNothingCountsTrainingAndValidationSaySo) {
  const test::ScratchFolder scratch;
  make_folders(scratch / "lines");
  std::string lines;
  for (int i = 0; i < 40; ++i) lines += json{{"text", tiny_text(static_cast<uint64_t>(i), 20)}, {"w", 0}}.dump() + "\n";
  write_file_atomic(scratch / "lines" / "a.jsonl", lines);
  data::BuildOptions options;
  options.out = scratch / "data";
  options.paths = {scratch / "lines"};
  options.rules.read.weights_key = "w";
  options.rules.validation = 0.3;
  data::BuildProgress progress;
  data::build_dataset(options, progress);
  config::RunConfig c = tiny_config(scratch);
  EXPECT_EQ(error_of([&] { run_training(c, {}); }).message(),
            fmt::format("no token of {} counts in the loss", (scratch / "data").string()));
  c.data.path = (scratch / "counts" / "data").string();
  build_tiny_data(scratch / "counts");
  c.validation.freq = 1;
  c.validation.set = {{.name = "nothing", .path = (scratch / "data").string()}};
  EXPECT_EQ(error_of([&] { run_training(c, {}); }).message(), "no token of split \"validation\" counts in the loss");
}

// Weights only for tokens that the data lack: no step has a label that counts.
TEST(TokenWeightsOfZero, StepsInWhichNoLabelCountsAreLeftOutAndNamed) {
  const test::ScratchFolder scratch;
  build_tiny_data(scratch);
  config::RunConfig c = tiny_config(scratch);
  std::vector<float> weights(258, 0);
  weights[0] = 1;  // no text has that byte
  formats::write_npy_vector(scratch / "weights.npy", weights);
  c.training.token_weights = "weights.npy";
  c.training.steps = 3;
  for (const metrics::StepRecord& record : train(c)) {
    if (record.step == 0) continue;
    EXPECT_EQ(record.skipped, "no_labels");
    EXPECT_FALSE(record.loss.has_value());
  }
  weights[0] = 0;
  formats::write_npy_vector(scratch / "weights.npy", weights);
  EXPECT_EQ(error_of([&] { run_training(c, {}); }).message(),
            (scratch / "weights.npy").string() + ": the weights of all tokens are 0");
}

}  // namespace
}  // namespace hearth::train
