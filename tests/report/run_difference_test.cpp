// SPDX-License-Identifier: Apache-2.0
// Two trainings whose differences are known.
#include "report/run_difference.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "convert/foreign.h"
#include "metrics/jsonl.h"
#include "support/hearth_command.h"

namespace hearth::report {
namespace {

using testing::HasSubstr;

metrics::StepRecord step_of(int64_t step, double loss) {
  return {.step = step,
          .loss = loss,
          .grad_norm = 1.0,
          .lr = 0.1,
          .tokens = step * 10,
          .first_sample = static_cast<uint64_t>(step) * 2,
          .samples = 2};
}

const NumberDifference& number(const RunDifference& d, const std::string& name) {
  for (const NumberDifference& n : d.numbers)
    if (n.name == name) return n;
  throw std::out_of_range(name);
}

TEST(RunDifference, NamesTheFirstStepAndTheLargestDifference) {
  PageRun a{.name = "a"}, b{.name = "b"};
  for (int64_t step = 1; step <= 5; ++step) a.history.records.push_back(step_of(step, 3.0));
  // Step 2 is missing, step 3 is off by 0.5, step 4 by 1.5, step 5 by 0.25.
  for (const auto& [step, loss] :
       std::vector<std::pair<int64_t, double>>{{1, 3.0}, {3, 3.5}, {4, 1.5}, {5, 3.25}, {6, 0}})
    b.history.records.push_back(step_of(step, loss));
  b.history.records[2].samples = 0;  // an older Hearth wrote it
  const RunDifference d = difference(a, b);
  EXPECT_EQ(d.first_steps, 5);
  EXPECT_EQ(d.second_steps, 6);
  EXPECT_EQ(d.common_steps, 4);
  const NumberDifference& loss = number(d, "loss");
  EXPECT_EQ(loss.steps, 4);
  EXPECT_EQ(loss.first_step, 3);
  EXPECT_EQ(loss.first, 3.0);
  EXPECT_EQ(loss.second, 3.5);
  EXPECT_EQ(loss.largest, 1.5);
  EXPECT_EQ(loss.largest_step, 4);
  EXPECT_EQ(number(d, "learning rate").first_step, 0);
  EXPECT_EQ(number(d, "first sample").steps, 3);
  EXPECT_THROW(number(d, "validation loss"), std::out_of_range) << "neither has one";
}

TEST(RunDifference, TextsThatOneSideLacksAreDifferences) {
  const std::vector<TextDifference> found =
      text_differences({{"lr", "1"}, {"steps", "5"}, {"only", "x"}}, {{"lr", "2"}, {"steps", "5"}, {"new", "y"}});
  ASSERT_EQ(found.size(), 3U);
  EXPECT_EQ(found[0].name + found[0].first + found[0].second, "lr12");
  EXPECT_EQ(found[1].name + found[1].first + found[1].second, "onlyx");
  EXPECT_EQ(found[2].name + found[2].first + found[2].second, "newy");
}

TEST(RunDifference, TheCommandsReadFoldersAndFiles) {
  const test::ScratchFolder scratch;
  const std::string at = scratch.path().string();
  for (const auto& [name, loss] : {std::pair("a", 3.0), {"b", 4.0}}) {
    make_folders(scratch / name);
    metrics::JsonlWriter(scratch / name / "metrics.jsonl").append(step_of(1, loss));
    convert::write_text(scratch / name / "config.toml", fmt::format("[optimizer]\nlr = {}\n", loss));
  }
  const test::CommandResult result = test::run_hearth(fmt::format("compare --json {0}/a {0}/b/metrics.jsonl", at));
  ASSERT_EQ(result.exit_code, 0) << result.output;
  const auto json = nlohmann::json::parse(result.output);
  ASSERT_EQ(json.at("configuration").size(), 1U);
  EXPECT_EQ(json.at("configuration")[0].at("name"), "optimizer.lr");
  const test::CommandResult text = test::run_hearth(fmt::format("compare {0}/a {0}/b", at));
  EXPECT_THAT(text.output, HasSubstr("differs from step 1 on"));
  EXPECT_THAT(text.output, HasSubstr("3 and 4; most at step 1: 1"));
  const test::CommandResult same = test::run_hearth(fmt::format("compare {0}/a {0}/a", at));
  EXPECT_THAT(same.output, HasSubstr("configuration: equal\n"));
  const test::CommandResult diff = test::run_hearth(fmt::format("config diff {0}/a/config.toml {0}/b/config.toml", at));
  EXPECT_EQ(diff.output, "optimizer.lr = 3.0 | 4.0\n");
  const test::CommandResult none = test::run_hearth(fmt::format("compare {0}/a {0}/c", at));
  EXPECT_EQ(none.exit_code, 2);
  EXPECT_THAT(none.output, HasSubstr("name a run folder, or its metrics.jsonl"));
}

}  // namespace
}  // namespace hearth::report
