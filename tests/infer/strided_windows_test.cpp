// SPDX-License-Identifier: Apache-2.0
// Perplexity with a sliding window, next to the page of transformers.
#include "infer/strided_windows.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <nlohmann/json.hpp>

#include "convert/foreign.h"
#include "infer/eval.h"
#include "infer/zero_model.h"
#include "support/errors.h"

namespace hearth::infer {
namespace {

using nlohmann::json;
using testing::HasSubstr;

TEST(StridedWindows, EveryTokenAfterTheFirstIsScoredOnceWithTheLongestContext) {
  EXPECT_EQ(windows_of(10, {4, 2}), (std::vector<WindowPart>{{0, 1, 4}, {2, 4, 6}, {4, 6, 8}, {6, 8, 10}}));
  EXPECT_EQ(windows_of(9, {4, 3}), (std::vector<WindowPart>{{0, 1, 4}, {3, 4, 7}, {6, 7, 9}}));
  // Without overlap the first token of each window has no context; a window of one token scores nothing.
  EXPECT_EQ(windows_of(9, {4, 4}), (std::vector<WindowPart>{{0, 1, 4}, {4, 5, 8}}));
  EXPECT_EQ(windows_of(3, {8, 4}), (std::vector<WindowPart>{{0, 1, 3}}));
  EXPECT_TRUE(windows_of(1, {8, 4}).empty());
  for (int64_t tokens = 2; tokens < 40; ++tokens) {
    for (const auto& rule : {StridedWindows{7, 1}, StridedWindows{7, 3}, StridedWindows{7, 6}}) {
      int64_t next = 1;
      for (const auto& [begin, scored, end] : windows_of(tokens, rule)) {
        EXPECT_EQ(scored, next);
        EXPECT_TRUE(begin == 0 || scored - begin >= rule.window - rule.stride);
        next = end;
      }
      EXPECT_EQ(next, tokens);
    }
  }
}

TEST(StridedWindows, PerplexityIsThatOfTransformersOnTheExportedModel) {
  HEARTH_NEEDS_ORACLE();
  const test::ScratchFolder scratch;
  const std::string at = scratch.path().string();
  ASSERT_EQ(test::run_python("tests/infer/lm_eval_scores.py model " + at).exit_code, 0);
  convert::converted(fmt::format("--to native {0}/hf {0}/native", at));
  convert::converted(fmt::format("--to hf {0}/native {0}/exported", at));
  make_folders(scratch / "text");
  for (const uint64_t i : {1, 2}) convert::write_text(scratch / fmt::format("text/{}.txt", i), train::tiny_text(i, 30));
  const test::CommandResult built =
      test::run_hearth(fmt::format("data build --out {0}/data --tokenizer {0}/exported/tokenizer.json {0}/text", at));
  ASSERT_EQ(built.exit_code, 0) << built.output;
  for (const auto& [window, stride] : {std::pair(32, 12), std::pair(96, 64), std::pair(24, 24)}) {
    const test::CommandResult theirs = test::run_python(
        fmt::format("tests/infer/hf_perplexity.py {0}/exported {0}/theirs.json {1} {2} {0}/text/1.txt {0}/text/2.txt",
                    at, window, stride));
    ASSERT_EQ(theirs.exit_code, 0) << theirs.output;
    const json expected = json::parse(read_file(scratch / "theirs.json"));
    const test::CommandResult ours = test::run_hearth(
        fmt::format("eval --json --checkpoint {0}/native --data all={0}/data --split train --window {1} --stride {2} "
                    "--batch-size 3",
                    at, window, stride));
    ASSERT_EQ(ours.exit_code, 0) << ours.output;
    const json set = json::parse(ours.output).at("sets").at(0);
    EXPECT_EQ(set.at("name"), "all");
    EXPECT_EQ(set.at("window"), window);
    EXPECT_EQ(set.at("stride"), stride);
    EXPECT_EQ(set.at("counted_tokens"), expected.at("scored"));
    EXPECT_NEAR(set.at("loss").get<double>(), expected.at("exact").get<double>(), 2e-6);
    const double perplexity = std::exp(expected.at("exact").get<double>());
    EXPECT_NEAR(set.at("perplexity").get<double>(), perplexity, 2e-6 * perplexity);  // the same tolerance as the loss's
    if (window == stride) {
      EXPECT_NEAR(set.at("loss").get<double>(), expected.at("page").get<double>(), 2e-6);
    }
  }
}

struct Sliding : train::TinyData {};

// Every token has the probability 1/258, in any window.
TEST_F(Sliding, OfAModelThatKnowsNothingEveryTokenHasItsLoss) {
  config::RunConfig c = train::tiny_config(scratch);
  const Path checkpoint = save_zero_model(c);
  const auto reports = eval_checkpoint({.checkpoint = checkpoint, .window = 9, .stride = 4});
  ASSERT_EQ(reports.size(), 1u);
  const data::Dataset dataset = data::Dataset::open(scratch / "data");
  const data::Split& split = dataset.split("validation");
  EXPECT_EQ(reports[0].validation.counted_tokens, static_cast<double>(split.tokens() - 1));
  EXPECT_NEAR(reports[0].validation.loss(), std::log(258.0), 1e-6);
  EXPECT_THAT(format_report(reports[0]), HasSubstr("window           9 tokens, stride 4\n"));
}

TEST_F(Sliding, WhatCannotSlideIsRefused) {
  config::RunConfig c = train::tiny_config(scratch);
  const Path checkpoint = save_zero_model(c);
  EXPECT_EQ(test::error_of([&] { eval_checkpoint({.checkpoint = checkpoint, .window = 33, .stride = 4}); }).message(),
            "--window 33 is too long");
  EXPECT_EQ(test::error_of([&] { eval_checkpoint({.checkpoint = checkpoint, .window = 8, .stride = 9}); }).message(),
            "--stride 9 is larger than the window");
  // The model's own window is the default.
  EXPECT_EQ(eval_checkpoint({.checkpoint = checkpoint, .stride = 16}).front().strided->window, 32);
  c.job.dump_folder = "masked";
  c.model.vocab_size = 259;
  c.objective.kind = config::ObjectiveKind::kMaskedLm;
  c.objective.mask_id = 258;
  const Path masked = save_zero_model(c);
  EXPECT_EQ(test::error_of([&] { eval_checkpoint({.checkpoint = masked, .stride = 4}); }).message(),
            "--stride cannot be used with a model that fills in hidden tokens");
}

}  // namespace
}  // namespace hearth::infer
