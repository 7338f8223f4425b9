// SPDX-License-Identifier: Apache-2.0
// Bounds and texts of models of masked_diffusion.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <nlohmann/json.hpp>

#include "convert/foreign.h"
#include "infer/bound.h"
#include "infer/choice_task.h"
#include "infer/denoise.h"
#include "infer/eval.h"
#include "infer/fill.h"
#include "infer/zero_model.h"
#include "support/hearth_command.h"
#include "support/python.h"
#include "train/initial_weights.h"

namespace hearth::infer {
namespace {

using nlohmann::json;
using test::error_of;
using testing::HasSubstr;

struct DiffusionModel : train::TinyData {
  config::RunConfig config(bool shift = false) const {
    config::RunConfig c = train::tiny_config(scratch);
    c.model.vocab_size = 259;  // a row for the mask
    c.objective.kind = config::ObjectiveKind::kMaskedDiffusion;
    c.objective.mask_id = 258;
    c.objective.shift_logits = shift;
    c.training.dtype = DType::kFloat64;
    return c;
  }
  // Weights so large that tokens differ much.
  std::unique_ptr<LoadedModel> random_model(config::RunConfig c) const {
    c.model.init = c.model.output_init = config::InitLaw::kNormal;
    c.model.init_std = 0.3;
    return load_model(train::save_initial_weights(c));
  }
  json reference(const std::string& command, const LoadedModel& model, json spec) const {
    const config::RunConfig& c = model.config;
    spec.update({{"H", c.model.n_heads},
                 {"G", c.model.n_kv_heads},
                 {"norm_eps", c.model.norm_eps},
                 {"rope_theta", c.model.rope_theta},
                 {"mask_id", 258},
                 {"shift", c.objective.shift_logits},
                 {"vocabulary", model.tokenizer->vocab_size()}});
    write_file_atomic(scratch / "spec.json", spec.dump());
    const auto python = test::run_python(fmt::format("tests/train/diffusion_reference.py {} {} {}", command,
                                                     model.folder.string(), (scratch / "spec.json").string()));
    EXPECT_EQ(python.exit_code, 0) << python.output;
    return json::parse(python.output);
  }
};

// With any draws: each gives every token the same loss.
TEST_F(DiffusionModel, ThatKnowsNothingHasTheBoundOfItsVocabulary) {
  const Path checkpoint = save_zero_model(config());
  const data::Dataset dataset = data::Dataset::open(scratch / "data");
  const data::Split& held_out = dataset.split("validation");
  for (const auto& [draws, batch_size] : {std::pair<int64_t, int64_t>{2, 8}, {3, 5}}) {
    const EvalReport report =
        eval_checkpoint({.checkpoint = checkpoint, .mc_num = draws, .batch_size = batch_size}).front();
    EXPECT_EQ(report.mc_num, draws);
    EXPECT_NEAR(report.validation.loss(), std::log(259.0), 1e-6);
    EXPECT_NEAR(report.validation.counted_tokens, static_cast<double>(held_out.tokens()), 1e-6);
    EXPECT_NEAR(report.validation.counted_units, static_cast<double>(held_out.text_bytes()), 1e-6);
    EXPECT_THAT(format_report(report), HasSubstr("nats per token, at most\n"));
  }
  EXPECT_EQ(draws_of(*load_model(checkpoint), {.checkpoint = {}}), 128);
  const auto set = json::parse(test::run_hearth("eval --json --mc-num 2 --checkpoint " + checkpoint.string()).output)
                       .at("sets")
                       .at(0);
  EXPECT_EQ(set.at("predicts"), "all");
  EXPECT_EQ(set.at("mc_num"), 2);
}

TEST_F(DiffusionModel, TheBoundIsTheSameAgainAndForAnyBatchSize) {
  const auto model = random_model(config());
  const auto loss = [&](int64_t batch_size, uint64_t seed) {
    return eval_sets(*model, {.checkpoint = {}, .seed = seed, .mc_num = 6, .batch_size = batch_size})
        .front()
        .validation.loss();
  };
  const double one = loss(4, 0);
  EXPECT_EQ(loss(4, 0), one);
  EXPECT_NEAR(loss(7, 0), one, 1e-12 * one);
  EXPECT_NE(loss(4, 1), one);
}

// With one token the bound is its log-likelihood; with more it is the mean over all choices of hidden tokens, which
// many draws come near.
TEST_F(DiffusionModel, ChoicesHaveTheBoundThatEnumerationGives) {
  for (const bool shift : {false, true}) {
    const auto model = random_model(config(shift));
    const std::vector<ContinuationTokens> texts = {
        {{257, 104, 101, 108, 108, 111}, 1}, {{257, 104, 101, 108}, 2}, {{257, 97, 98, 99, 100}, 3}};
    json spec;
    for (const ContinuationTokens& text : texts) spec["texts"].push_back({{"ids", text.ids}, {"scored", text.scored}});
    const json expected = reference("choices", *model, spec);
    const auto few = log_likelihood_bounds(*model, texts, {.draws = 5, .batch_size = 3});
    EXPECT_NEAR(few[0].sum, expected[0].get<double>(), 1e-9);
    for (size_t i = 0; i < texts.size(); ++i) {
      constexpr int kSeeds = 8;
      double sum = 0, squares = 0;
      for (uint64_t seed = 1; seed <= kSeeds; ++seed) {
        const auto result =
            log_likelihood_bounds(*model, std::span(&texts[i], 1), {.draws = 64, .seed = seed, .batch_size = 64});
        EXPECT_EQ(result[0].tokens, texts[i].scored);
        sum += result[0].sum;
        squares += result[0].sum * result[0].sum;
      }
      const double mean = sum / kSeeds, deviation = std::sqrt(std::max(0.0, squares / kSeeds - mean * mean));
      EXPECT_NEAR(mean, expected[i].get<double>(), 4 * deviation / std::sqrt(kSeeds - 1) + 1e-9) << i;
    }
    EXPECT_EQ(log_likelihood_bounds(*model, texts, {.draws = 5, .batch_size = 3})[2].sum, few[2].sum);
    EXPECT_NEAR(log_likelihood_bounds(*model, texts, {.draws = 5, .batch_size = 8})[2].sum, few[2].sum, 1e-9);
  }
  const auto shifted = random_model(config(true));
  const std::vector<ContinuationTokens> full = {{std::vector<int32_t>(33, 97), 32}};
  EXPECT_EQ(error_of([&] { log_likelihood_bounds(*shifted, full, {}); }).message(),
            "a choice of 32 tokens fills the window of the model");
}

TEST_F(DiffusionModel, AnswersQuestions) {
  const Path checkpoint = save_zero_model(config());
  const Path file = scratch / "task.jsonl";
  convert::write_text(file, R"({"query": "a", "choices": ["bc", "d"], "gold": 1})"
                            "\n");
  const auto model = load_model(checkpoint);
  const ChoiceReport report = score_tasks(*model, {.checkpoint = {}, .tasks = {file.string()}, .mc_num = 3}).front();
  EXPECT_NEAR(report.scores[0][0].sum, -3 * std::log(259.0), 1e-6);  // " bc"
  EXPECT_NEAR(report.scores[0][1].sum, -2 * std::log(259.0), 1e-6);
  EXPECT_EQ(report.accuracy(ChoiceRule::kSum), 1);
}

TEST_F(DiffusionModel, TextsAreThoseOfLladasSampling) {
  for (const bool shift : {false, true}) {
    const auto model = random_model(config(shift));
    const std::vector<int32_t> prompt = {257, 104, 101, 108, 108, 111};
    std::set<std::vector<int32_t>> different;
    for (const auto& [steps, block] : {std::pair<int64_t, int64_t>{24, 24}, {24, 6}, {8, 24}, {20, 6}, {1, 24}}) {
      const DenoisingRules rules{
          .max_tokens = 24, .steps = steps, .block_length = block, .sampling = {.temperature = 0}};
      const std::vector<int32_t> ours = denoise(*model, prompt, rules, 1);
      const json theirs = reference(
          "generate", *model, {{"prompt", prompt}, {"max_tokens", 24}, {"steps", steps}, {"block_length", block}});
      EXPECT_EQ(ours, theirs.get<std::vector<int32_t>>()) << steps << " steps, blocks of " << block;
      different.insert(ours);
    }
    EXPECT_GT(different.size(), 2U);  // the rules matter
  }
}

// The files that LLaDA's code loads: the same tokens by its names, fields and rotary embedding. Hearth reads them, too.
TEST_F(DiffusionModel, IsExportedForLladasCode) {
  config::RunConfig c = config();
  c.training.dtype = DType::kFloat32;
  c.model.dim = 48;  // heads of 12
  const auto model = random_model(c);
  const Path out = scratch / "llada";
  const auto converted =
      test::run_hearth(fmt::format("convert --verify --to hf {} {}", model->folder.string(), out.string()));
  ASSERT_EQ(converted.exit_code, 0) << converted.output;
  const json written = json::parse(read_file(out / "config.json"));
  EXPECT_EQ(written.at("model_type"), "llada");
  EXPECT_EQ(written.at("architectures").at(0), "LLaDAModelLM");
  EXPECT_EQ(written.at("mask_token_id"), 258);
  EXPECT_THAT(read_file(out / "README.md"), HasSubstr("masked diffusion"));

  const std::vector<int32_t> prompt = {257, 104, 101, 108, 108, 111};
  const DenoisingRules rules{.max_tokens = 24, .steps = 12, .block_length = 8, .sampling = {.temperature = 0}};
  const std::vector<int32_t> ours = denoise(*model, prompt, rules, 1);
  write_file_atomic(scratch / "spec.json", json{{"prompt", prompt},
                                                {"max_tokens", 24},
                                                {"steps", 12},
                                                {"block_length", 8},
                                                {"shift", false},
                                                {"vocabulary", 258}}
                                               .dump());
  const auto python = test::run_python(
      fmt::format("tests/train/diffusion_reference.py generate {} {}", out.string(), (scratch / "spec.json").string()));
  ASSERT_EQ(python.exit_code, 0) << python.output;
  EXPECT_EQ(json::parse(python.output).get<std::vector<int32_t>>(), ours);

  // A run that begins with these files.
  config::RunConfig again = c;
  again.job.dump_folder = "again";
  again.model.rope_pairs = config::RopePairs::kHalves;
  again.checkpoint.initial_load_path = out.string();
  again.optimizer.lr = 0;
  again.training.steps = 1;
  again.lr_scheduler.warmup_steps = 0;
  train::train(again);
  EXPECT_EQ(denoise(*load_model(again.run_folder()), prompt, rules, 1), ours);

  json wrong = written;
  const auto problem = [&] {
    write_file_atomic(out / "config.json", wrong.dump());
    return test::run_hearth(fmt::format("convert --to native {0} {0}-native", out.string())).output;
  };
  wrong["scale_logits"] = true;
  EXPECT_THAT(problem(), HasSubstr("scale_logits = true, and Hearth computes only false"));
  wrong = written;
  wrong["attention_sinks"] = 4;
  EXPECT_THAT(problem(), HasSubstr("field \"attention_sinks\" is not known"));
  wrong = written;
  wrong.erase("block_type");
  EXPECT_THAT(problem(), HasSubstr("has no block_type"));
}

TEST_F(DiffusionModel, TheSeedDecidesWhatATemperatureDraws) {
  const auto model = random_model(config());
  const DenoisingRules rules{.max_tokens = 12, .steps = 6, .block_length = 12, .sampling = {.temperature = 1}};
  EXPECT_EQ(denoise(*model, {257}, rules, 1), denoise(*model, {257}, rules, 1));
  EXPECT_NE(denoise(*model, {257}, rules, 1), denoise(*model, {257}, rules, 2));
  for (const int32_t id : denoise(*model, {257}, rules, 3)) EXPECT_LT(id, 258);
}

// The positions of `text` that hold what the endless text "xyz abc xyz abc ..." holds there.
size_t right_characters(std::string_view text) {
  size_t right = 0;
  for (size_t i = 0; i < text.size(); ++i) right += text[i] == "xyz abc "[i % 8] ? 1 : 0;
  return right;
}

// It learns a text of two words, and puts them behind each other. Rounding differs between processors, so a few of the
// characters may be wrong: a model that learned nothing has one in eight right at best.
TEST_F(DiffusionModel, WritesWhatItLearned) {
  std::string text;
  for (int i = 0; i < 1200; ++i) text += "abc xyz ";
  make_folders(scratch / "words");
  write_file_atomic(scratch / "words/a.txt", text);
  data::BuildOptions options;
  options.out = scratch / "words-data";
  options.paths = {scratch / "words"};
  data::BuildProgress progress;
  data::build_dataset(options, progress);
  config::RunConfig c = config();
  c.data.path = "words-data";
  c.training.dtype = DType::kFloat32;
  c.training.steps = 1000;
  c.lr_scheduler.decay_type = config::DecayType::kLinear;
  c.checkpoint.interval = 0;
  train::train(c);
  const auto model = load_model(c.run_folder());
  const DenoisingRules rules{16, 16, 16, {.temperature = 0}};
  const DenoisedText made = denoised_text(*model, {257, 'a', 'b', 'c', ' '}, rules, {}, 1);
  EXPECT_GE(right_characters(made.text), 14) << made.text;
  EXPECT_EQ(made.stop, "length");
  EXPECT_EQ(made.counts.generated_tokens, 16);
  const std::string stop = made.text.substr(5, 2);
  const DenoisedText cut = denoised_text(*model, {257, 'a', 'b', 'c', ' '}, rules, {"never", stop}, 1);
  EXPECT_EQ(cut.text, made.text.substr(0, made.text.find(stop)));
  EXPECT_EQ(cut.stop, "stop");

  const std::string words = fmt::format("generate --temperature 0 --checkpoint {} ", c.run_folder().string());
  const auto one = test::run_hearth(words + "--prompt 'abc ' --max-tokens 8 --steps 4 --block-length 4");
  EXPECT_THAT(one.output, testing::StartsWith("abc "));
  EXPECT_GE(right_characters(one.output.substr(4, 8)), 6) << one.output;
  convert::write_text(scratch / "prompts.txt", "abc \nxyz \n");
  const auto many = test::run_hearth(
      words + fmt::format("--prompts {0}/prompts.txt --out {0}/out.jsonl --max-tokens 8", scratch.path().string()));
  EXPECT_EQ(many.exit_code, 0) << many.output;
  const std::vector<std::string> lines = split_lines(read_file(scratch / "out.jsonl"));
  ASSERT_EQ(lines.size(), 2U);
  for (const std::string& line : lines) {
    const json written = json::parse(line);
    const std::string after_abc = written.at("prompt") == "abc " ? "" : "xyz ";
    const auto text = after_abc + written.at("text").get<std::string>();
    EXPECT_GE(right_characters(text), text.size() - 2) << line;
  }
}

TEST_F(DiffusionModel, WhatItCannotDoIsRefused) {
  const Path checkpoint = save_zero_model(config());
  const auto model = load_model(checkpoint);
  EXPECT_THAT(error_of([&] { fill_masks(*model, {.text = "a[MASK]"}); }).message(), HasSubstr("does not fill masks"));
  const auto generate = [&](config::GenerateOptions options) {
    options.checkpoint = checkpoint;
    options.max_tokens = options.max_tokens == 200 ? 8 : options.max_tokens;
    return error_of([&] { run_generate(options); }).message();
  };
  EXPECT_EQ(generate({.prompt = "a", .max_tokens = 31}), "prompt and text have 33 tokens");
  EXPECT_EQ(generate({.prompt = "a", .block_length = 3}), "--block-length 3 does not divide --max-tokens 8");
  EXPECT_EQ(generate({.prompt = "a", .steps = 9}), "--steps 9 is no number of steps for 8 tokens in 1 block");
  EXPECT_EQ(generate({.prompt = "a", .steps = 5, .block_length = 4}),
            "--steps 5 is no number of steps for 8 tokens in 2 blocks");
  EXPECT_THAT(error_of([&] { eval_sets(*model, {.checkpoint = {}, .ngram = {2}}); }).message(),
              HasSubstr("--ngram cannot be compared"));
  EXPECT_THAT(error_of([&] { eval_sets(*model, {.checkpoint = {}, .stride = 8}); }).message(),
              HasSubstr("--stride cannot be used"));
}

TEST_F(DiffusionModel, OtherModelsRefuseItsOptions) {
  const Path checkpoint = save_zero_model(train::tiny_config(scratch));
  EXPECT_EQ(error_of([&] { run_generate({.checkpoint = checkpoint, .prompt = "a", .steps = 3}); }).message(),
            "--steps is for models of masked_diffusion");
  EXPECT_EQ(error_of([&] { run_generate({.checkpoint = checkpoint, .prompt = "a", .block_length = 3}); }).message(),
            "--block-length is for models of masked_diffusion");
  EXPECT_EQ(error_of([&] { eval_checkpoint({.checkpoint = checkpoint, .mc_num = 3}); }).message(),
            "--mc-num is for models of masked_diffusion");
}

}  // namespace
}  // namespace hearth::infer
