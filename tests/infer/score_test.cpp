// SPDX-License-Identifier: Apache-2.0
// Scores of a run's checkpoints, next to the training's own losses and to `hearth eval`.
#include "infer/score.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "base/text.h"
#include "support/hearth_command.h"
#include "train/tiny_run.h"

namespace hearth::infer {
namespace {

using nlohmann::json;
using testing::HasSubstr;

struct ScoredRun : train::TinyData {
  ScoredRun() {
    c.validation.freq = 4;
    c.training.steps = 8;
    records = train::train(c);
    write_file_atomic(scratch / "task.jsonl",
                      "{\"query\": \"ka\", \"choices\": [\"lo\", \"xyz\"], \"gold\": 0}\n"
                      "{\"query\": \"mi\", \"choices\": [\"tus\", \"Q\"], \"gold\": 1}\n"
                      "{\"query\": \"or\", \"choices\": [\"#\", \"is ve\"], \"gold\": 1}\n");
  }
  test::CommandResult score(const std::string& words) const {
    return test::run_hearth(fmt::format("score {} {}", c.run_folder().string(), words));
  }
  std::string task() const { return fmt::format("--task {} ", (scratch / "task.jsonl").string()); }
  std::vector<metrics::Score> scores() const { return metrics::read_scores(c.run_folder() / "scores.jsonl"); }
  double value(int64_t step, const std::string& name) const {
    for (const metrics::Score& score : scores())
      if (score.step == step && score.name == name) return score.value;
    ADD_FAILURE() << step << " " << name;
    return 0;
  }
  config::RunConfig c = train::tiny_config(scratch);
  std::vector<metrics::StepRecord> records;
};

TEST_F(ScoredRun, LossesAreTheTrainingsAndAccuraciesThoseOfEval) {
  const test::CommandResult result = score(task() + "--delimiter ''");
  ASSERT_EQ(result.exit_code, 0) << result.output;
  EXPECT_EQ(scores().size(), 2u * 5);
  for (const int64_t step : {4, 8}) {
    EXPECT_NEAR(value(step, "validation_loss"), *records[static_cast<size_t>(step)].validation_loss, 1e-6);
    const test::CommandResult eval = test::run_hearth(
        fmt::format("eval --json --checkpoint {} {} --delimiter ''", train::step_of(c, step).string(), task()));
    const json theirs = json::parse(eval.output).at("tasks").at(0);
    for (const char* rule : {"acc", "acc_norm", "acc_bytes", "acc_tokens"})
      EXPECT_EQ(value(step, std::string("task.") + rule), theirs.at(rule).get<double>());
  }
  const std::vector<std::string> lines = split_lines(result.output);
  const std::string& last = lines.back();
  EXPECT_THAT(lines[lines.size() - 3], HasSubstr("step  task.acc  task.acc_bytes  task.acc_norm  task.acc_tokens"));
  EXPECT_THAT(last, HasSubstr(fmt::format("{:.4f}", value(8, "validation_loss"))));
  EXPECT_EQ(last.substr(0, 10), "         8");
}

TEST_F(ScoredRun, AStepThatIsScoredIsNotMeasuredAgain) {
  ASSERT_EQ(score("").exit_code, 0);
  const std::string before = read_file(c.run_folder() / "scores.jsonl");
  // Its weights are gone: only a look at its manifest is left.
  for (const auto& entry : std::filesystem::directory_iterator(train::step_of(c, 4)))
    if (entry.path().extension() == ".distcp") remove_file(entry.path());
  c.training.steps = 12;
  train::train(c);
  const test::CommandResult again = score("");
  ASSERT_EQ(again.exit_code, 0) << again.output;
  const std::string after = read_file(c.run_folder() / "scores.jsonl");
  EXPECT_EQ(after.substr(0, before.size()), before);
  EXPECT_EQ(split_lines(after.substr(before.size())).size(), 1u);
  EXPECT_EQ(scores().size(), 3u);
  // A task is another measure. An edited task is measured again, and its values replace those before.
  ASSERT_EQ(score("--every 8 " + task() + "--tasks-only").exit_code, 0);
  EXPECT_EQ(scores().size(), 7u);
  const double acc = value(8, "task.acc");
  std::string text = read_file(scratch / "task.jsonl");
  for (size_t at = 0; (at = text.find("\"gold\": ", at)) != std::string::npos; ++at) text[at + 8] ^= 1;  // 0 and 1
  write_file_atomic(scratch / "task.jsonl", text);
  ASSERT_EQ(score("--every 8 " + task() + "--tasks-only").exit_code, 0);
  EXPECT_EQ(scores().size(), 7u);
  EXPECT_NEAR(value(8, "task.acc"), 1 - acc, 1e-12);
  // A step that is not scored needs its weights.
  EXPECT_EQ(score(task()).exit_code, 3);
}

// They are other curves than the run's own validation loss.
TEST_F(ScoredRun, LossesOfOtherDocumentsHaveOtherNames) {
  ASSERT_EQ(score("").exit_code, 0);
  const double own = value(8, "validation_loss");
  const std::string data = (scratch / "data").string();
  ASSERT_EQ(score("--every 8 --split train").exit_code, 0);
  ASSERT_EQ(score("--every 8 --data " + data + "/").exit_code, 0);
  const test::CommandResult both = score("--every 8 --split train --data a=" + data + " --data b=" + data);
  ASSERT_EQ(both.exit_code, 0) << both.output;
  std::set<std::string> names;
  for (const metrics::Score& score : scores()) names.insert(score.name);
  EXPECT_EQ(names, (std::set<std::string>{"validation_loss", "train_loss", "validation_loss.data", "train_loss.a",
                                          "train_loss.b"}));
  EXPECT_EQ(value(8, "validation_loss"), own);
  EXPECT_EQ(value(8, "validation_loss.data"), own);
  EXPECT_EQ(value(8, "train_loss.a"), value(8, "train_loss"));
}

TEST_F(ScoredRun, EveryLeavesStepsOutAndWhatIsWrongIsSaid) {
  ASSERT_EQ(score("--every 8").exit_code, 0);
  ASSERT_EQ(scores().size(), 1u);
  EXPECT_EQ(scores().front().step, 8);
  EXPECT_THAT(score("--every 5").output, HasSubstr("has a step that 5 divides"));
  EXPECT_EQ(score("--every 5").exit_code, 2);
  EXPECT_THAT(test::run_hearth("score " + (scratch / "text").string()).output, HasSubstr("has no checkpoints"));
  const test::CommandResult below = test::run_hearth("score " + c.checkpoint_folder().string());
  EXPECT_EQ(below.exit_code, 2);
  EXPECT_THAT(below.output, HasSubstr("is not a run folder\n  why: it has the checkpoints of one\n  fix: give " +
                                      c.run_folder().string()));
  EXPECT_THAT(test::run_hearth("score s3://bucket/run").output, HasSubstr("s3://bucket/run is in a store"));
  EXPECT_THAT(score("--tasks-only").output, HasSubstr("--tasks-only goes with --task FILE"));
  EXPECT_THAT(score("--shots 2").output, HasSubstr("--shots goes with --task FILE"));
  EXPECT_THAT(score(task() + "--tasks-only --seed 3").output, HasSubstr("--seed has no effect with --tasks-only"));
}

}  // namespace
}  // namespace hearth::infer
