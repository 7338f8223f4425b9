#include "train/eval.h"

#include <gtest/gtest.h>

#include <cmath>

#include "comm/group.h"
#include "data/dataset.h"
#include "tiny_run.h"
#include "tokenizer/pretokenizer.h"
#include "tokenizer/train_bpe.h"
#include "train/run.h"

namespace hearth::train {
namespace {

// A checkpoint of a model whose every weight is zero: all tokens are equally likely, so every number has a closed form.
Path save_zero_model(const config::RunConfig& config) {
  Run run = open_run(config);
  const auto group = comm::single();
  parallel::ShardedWeights weights(run.plan, run.precision, *group, parallel::ShardedWeights::Purpose::kTraining);
  save_state(weights, run.folder.checkpoints(), run.manifest({}, {}));
  return step_of(config, 0);
}

struct Eval : TinyData {};

TEST_F(Eval, AModelThatKnowsNothingHasTheLossOfItsVocabulary) {
  const Path checkpoint = save_zero_model(tiny_config(scratch));
  const data::Dataset dataset = data::Dataset::open(scratch / "data");
  const data::Split& held_out = dataset.split("validation");

  for (const int64_t batch_size : {1, 3, 8}) {
    const EvalReport report = evaluate_checkpoint({.checkpoint = checkpoint, .ngram = {3}, .batch_size = batch_size});
    EXPECT_NEAR(report.evaluation.loss(), std::log(258.0), 1e-6);
    EXPECT_NEAR(report.perplexity(), 258, 1e-3);
    // Every token but the first is predicted once. The first is a byte; the ends of documents stand for no bytes.
    EXPECT_EQ(report.evaluation.counted_tokens, static_cast<double>(held_out.tokens() - 1));
    EXPECT_EQ(report.evaluation.counted_bytes, static_cast<double>(held_out.text_bytes() - 1));
    EXPECT_NEAR(report.bits_per_byte(),
                std::log2(258.0) * report.evaluation.counted_tokens / report.evaluation.counted_bytes, 1e-6);
    ASSERT_EQ(report.ngram_bits_per_byte.size(), 3u);
    EXPECT_LT(report.ngram_bits_per_byte[2], report.ngram_bits_per_byte[0]);
  }
}

TEST_F(Eval, ItAgreesWithTheValidationOfTheTraining) {
  config::RunConfig c = tiny_config(scratch);
  c.validation.freq = 12;
  const auto records = train(c);
  const EvalReport report = evaluate_checkpoint({.checkpoint = c.run_folder(), .batch_size = 5});
  EXPECT_NEAR(report.evaluation.loss(), *records.back().validation_loss, 1e-6);
}

TEST(EvalReport, ShowsEveryOrderBesideOurs) {
  EvalReport report;
  report.evaluation = {.loss_sum = 200 * std::log(2.0), .counted_tokens = 110, .counted_bytes = 100};
  report.ngram_bits_per_byte = {4.5, 3.0, 1.5};
  const std::string text = format_report(report);
  EXPECT_NE(text.find("bits per byte    2.0000"), std::string::npos) << text;
  EXPECT_NE(text.find("order 1        4.5000   the model is better"), std::string::npos) << text;
  EXPECT_NE(text.find("order 3        1.5000   the model is worse"), std::string::npos) << text;
}

TEST_F(Eval, ADatasetOfAnotherTokenizerIsRefused) {
  const Path checkpoint = save_zero_model(tiny_config(scratch));
  // As many ids as the checkpoint's: bytes, EOS and one merge.
  tokenizer::PieceCounts counts;
  counts.add("kaka", 10);
  write_file_atomic(scratch / "tokenizer.json",
                    tokenizer::huggingface_file(tokenizer::train_bpe(
                        counts, {258, {"<|endoftext|>"}, std::string(tokenizer::kGpt2Pattern), 2}, nullptr)));
  data::BuildOptions options;
  options.out = scratch / "data";
  options.paths = {scratch / "text"};
  options.rules.validation = 0.3;
  options.rules.tokenizer = (scratch / "tokenizer.json").string();
  options.overwrite = true;
  data::BuildProgress progress;
  data::build_dataset(options, progress);
  const Error error = error_of([&] { evaluate_checkpoint({.checkpoint = checkpoint}); });
  EXPECT_EQ(error.code(), ExitCode::kUser);
  EXPECT_NE(error.message().find("another tokenizer"), std::string::npos) << error.what();

  // A run goes on with its own tokenizer only.
  config::RunConfig c = tiny_config(scratch);
  const Error resume = error_of([&] { run_training(c, {}); });
  EXPECT_EQ(resume.code(), ExitCode::kUser);
  EXPECT_NE(resume.message().find("another tokenizer"), std::string::npos) << resume.what();
}

}  // namespace
}  // namespace hearth::train
