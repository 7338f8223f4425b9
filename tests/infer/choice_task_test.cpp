// SPDX-License-Identifier: Apache-2.0
// Multiple choice against lm-evaluation-harness, closed forms of a model that knows nothing, and wrong files.
#include "infer/choice_task.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <nlohmann/json.hpp>

#include "base/text.h"
#include "convert/foreign.h"
#include "infer/zero_model.h"
#include "support/errors.h"
#include "support/hearth_command.h"

namespace hearth::infer {
namespace {

using nlohmann::json;
using testing::HasSubstr;

std::vector<json> read_samples(const Path& file) {
  std::vector<json> samples;
  for (const std::string& line : split_lines(read_file(file))) samples.push_back(json::parse(line));
  return samples;
}

void lm_eval(const std::string& words) {
  const test::CommandResult result = test::run_python("tests/infer/lm_eval_scores.py " + words);
  ASSERT_EQ(result.exit_code, 0) << result.output;
}

void expect_close(const std::vector<json>& ours, const json& theirs) {
  ASSERT_EQ(ours.size(), theirs.size());
  for (size_t i = 0; i < ours.size(); ++i) {
    const json& choices = ours[i].at("choices");
    ASSERT_EQ(choices.size(), theirs[i].size());
    for (size_t c = 0; c < choices.size(); ++c)
      EXPECT_NEAR(choices[c].at("loglikelihood").get<double>(), theirs[i][c][0].get<double>(), 1e-4)
          << "question " << i << ", choice " << c;
  }
}

// The harness computes with the exported model, Hearth with the checkpoint.
TEST(ChoiceTask, EachChoiceHasTheHarnesssLogLikelihood) {
  HEARTH_NEEDS_ORACLE();
  const test::ScratchFolder scratch;
  const std::string at = scratch.path().string();
  lm_eval("model " + at);
  convert::converted(fmt::format("--to native {0}/hf {0}/native", at));
  convert::converted(fmt::format("--to hf {0}/native {0}/exported", at));
  for (const int shots : {0, 2}) {
    lm_eval(fmt::format("score {0}/exported {0}/task.jsonl {0}/examples.jsonl {1} {0}/theirs.json", at, shots));
    const json theirs = json::parse(read_file(at + "/theirs.json"));
    const std::string few = shots == 0 ? "" : fmt::format(" --shots {} --shots-from {}/examples.jsonl", shots, at);
    const test::CommandResult result = test::run_hearth(fmt::format(
        "eval --json --checkpoint {0}/native --task {0}/task.jsonl --samples {0}/ours.jsonl --batch-size 3{1}", at,
        few));
    ASSERT_EQ(result.exit_code, 0) << result.output;
    const json task = json::parse(result.output).at("tasks").at(0);
    for (const char* rule : {"acc", "acc_norm", "acc_bytes"})
      EXPECT_NEAR(task.at(rule).get<double>(), theirs.at("results").at(rule).get<double>(), 1e-12) << rule;
    expect_close(read_samples(at + "/ours.jsonl"), theirs.at("choices"));
    if (shots == 0) continue;
    // The same questions, written by the harness with their examples.
    lm_eval(fmt::format("questions local {0}/written.jsonl --shots 2 --include {0}/tasks", at));
    const test::CommandResult again = test::run_hearth(
        fmt::format("eval --checkpoint {0}/native --task {0}/written.jsonl --samples {0}/again.jsonl", at));
    ASSERT_EQ(again.exit_code, 0) << again.output;
    expect_close(read_samples(at + "/again.jsonl"), theirs.at("choices"));
  }
}

struct ZeroModel : train::TinyData {
  Path checkpoint = save_zero_model(train::tiny_config(scratch));

  Path questions(const std::string& text) const {
    const Path file = scratch / "task.jsonl";
    convert::write_text(file, text);
    return file;
  }
  config::EvalOptions options(const std::string& text) const {
    return {.checkpoint = checkpoint, .tasks = {questions(text).string()}};
  }
  std::vector<ChoiceReport> score(const config::EvalOptions& options) const {
    return score_tasks(*load_model(options.checkpoint), options);
  }
};

// Every token has the probability 1/258; of equal ones the first counts as the most likely one. The window has 32
// tokens, so the longest choice fills it.
TEST_F(ZeroModel, ChoicesHaveTheLikelihoodsOfTheirLengths) {
  config::EvalOptions o = options(
      "{\"query\": \"q\", \"choices\": [\"abc\", \"de\", \"\\u00e9\"], \"gold\": 1}\n\n"
      "{\"query\": \"\", \"choices\": [\"\\u0000\\u0000\", \"" +
      std::string(32, 'x') + "\"], \"gold\": 0}\n");
  o.delimiter = "";
  o.batch_size = 2;
  const ChoiceReport report = score(o).front();
  const std::vector<std::vector<int64_t>> tokens = {{3, 2, 2}, {2, 32}};
  for (size_t q = 0; q < 2; ++q) {
    for (size_t c = 0; c < tokens[q].size(); ++c) {
      EXPECT_EQ(report.scores[q][c].tokens, tokens[q][c]);
      EXPECT_NEAR(report.scores[q][c].sum, -static_cast<double>(tokens[q][c]) * std::log(258.0), 1e-4);
      EXPECT_EQ(report.scores[q][c].is_greedy, q == 1 && c == 0);
    }
  }
  EXPECT_EQ(report.picked(0, ChoiceRule::kSum), 1);
  // One character of two bytes: the worst per character.
  EXPECT_NE(report.picked(0, ChoiceRule::kPerCharacter), 2);
  EXPECT_EQ(report.accuracy(ChoiceRule::kSum), 1);
  EXPECT_NEAR(report.chance(), (1.0 / 3 + 1.0 / 2) / 2, 1e-12);
}

TEST_F(ZeroModel, TheStandardErrorIsThatOfTheSample) {
  ChoiceReport report;
  for (const int64_t gold : {0, 0, 0, 1}) {
    report.questions.push_back({"q", {"a", "b"}, gold, 1});
    report.scores.push_back({{-1, 1, false}, {-2, 1, false}});
  }
  EXPECT_EQ(report.accuracy(ChoiceRule::kSum), 0.75);
  // The deviation of {1, 1, 1, 0} with n - 1 is 0.5; the root of 4 is 2.
  EXPECT_NEAR(report.standard_error(ChoiceRule::kSum), 0.25, 1e-12);
}

// A name of lm-evaluation-harness is no file yet.
TEST(ChoiceTask, ATaskWithoutAFileSaysWhatWritesIt) {
  try {
    read_choice_task("easy=no/arc_easy");
    FAIL() << "no error";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ExitCode::kUser);
    EXPECT_STREQ(
        error.what(),
        "error: there is no file no/arc_easy\n"
        "  why: --task takes a file of questions\n"
        "  fix: `scripts/lm_eval_task.py arc_easy arc_easy.jsonl` writes one of a task of lm-evaluation-harness");
  }
}

TEST(ChoiceTask, ExamplesComeSolvedBeforeTheQuestion) {
  const Question question{"2 + 2 =", {"3", "4"}, 1, 1};
  EXPECT_EQ(prompt_of(question, {{"1 + 1 =", {"2", "9"}, 0, 1}}, " "), "1 + 1 = 2\n\n2 + 2 =");
}

TEST_F(ZeroModel, WrongFilesAreNamedWithTheirLine) {
  const std::string good = "{\"query\": \"q\", \"choices\": [\"a\", \"b\"], \"gold\": 0}\n";
  const std::vector<std::pair<std::string, std::string>> wrong = {
      {"[1]", "the line is not a JSON object"},
      {"{\"query\": \"q\"", "the line is not a JSON object"},
      {"{\"query\": \"q\", \"gold\": 0}", "\"choices\" is missing"},
      {"{\"query\": 1, \"choices\": [\"a\", \"b\"], \"gold\": 0}", "\"query\" is not a text"},
      {"{\"query\": \"q\", \"choices\": [\"a\"], \"gold\": 0}", "fewer than two"},
      {"{\"query\": \"q\", \"choices\": [\"a\", \"\"], \"gold\": 0}", "not a text, or empty"},
      {"{\"query\": \"q\", \"choices\": [\"a\", \"b\"], \"gold\": 2}", "\"gold\" is 2, and there are 2 choices"},
      {"{\"query\": \"q\", \"choices\": [\"a\", \"b\"], \"gold\": \"a\"}", "\"gold\" is not the number"},
      {"{\"query\": \"q\", \"choices\": [\"" + std::string(33, 'x') + "\", \"b\"], \"gold\": 0}",
       "window has 32 tokens"},
  };
  for (const auto& [line, why] : wrong) {
    const Error error = test::error_of([&] { score(options(good + line + "\n")); });
    EXPECT_EQ(error.code(), ExitCode::kUser);
    EXPECT_THAT(error.what(), HasSubstr("task.jsonl:2: "));
    EXPECT_THAT(error.what(), HasSubstr(why));
  }
  EXPECT_THAT(test::error_of([&] { score(options("\n")); }).what(), HasSubstr("has no questions"));
  config::EvalOptions few = options(good);
  few.shots = 2;
  few.shots_from = few.tasks.front();
  EXPECT_THAT(test::error_of([&] { score(few); }).what(), HasSubstr("has 1 questions"));
  config::EvalOptions twice = options(good);
  twice.tasks.push_back(twice.tasks.front());
  EXPECT_THAT(test::error_of([&] { score(twice); }).what(), HasSubstr("two tasks are called \"task\""));
}

TEST_F(ZeroModel, OptionsWithoutEffectAreRefused) {
  const std::string file = questions("{\"query\": \"q\", \"choices\": [\"a\", \"b\"], \"gold\": 0}\n").string();
  const std::string words = "eval --checkpoint " + checkpoint.string();
  for (const std::string& wrong :
       std::vector<std::string>{" --shots 1", " --samples x", " --task " + file + " --shots 1",
                                " --task " + file + " --shots-from " + file, " --task " + file + " --ngram 2"}) {
    const test::CommandResult result = test::run_hearth(words + wrong);
    EXPECT_EQ(result.exit_code, 2) << wrong;
    EXPECT_THAT(result.output, HasSubstr("goes with --")) << wrong;
  }
  const auto both = json::parse(
      test::run_hearth(words + " --json --task t=" + file + " --data " + (scratch / "data").string()).output);
  EXPECT_EQ(both.at("sets").size(), 1U);
  EXPECT_EQ(both.at("tasks").at(0).at("name"), "t");
}

}  // namespace
}  // namespace hearth::infer
