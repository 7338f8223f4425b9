// `hearth report`: what it writes, and what it says about files that are not a run's.
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "metrics/jsonl.h"
#include "support/environment.h"
#include "support/hearth_command.h"
#include "support/python.h"

namespace hearth::commands {
namespace {

using testing::HasSubstr;

struct ReportCommand : ::testing::Test {
  // FOLDER/NAME, a run of `steps` steps, step N with loss 10 / N.
  void make_run(const std::string& name, int64_t steps) {
    make_folders(folder / name);
    metrics::JsonlWriter writer(folder / name / "metrics.jsonl");
    for (int64_t step = 1; step <= steps; ++step) {
      metrics::Record r;
      r.step = step;
      r.loss = 10.0 / static_cast<double>(step);
      r.step_s = 2;
      r.tokens_per_second = 50;
      writer.append(r);
    }
  }
  test::CommandResult report(const std::string& words) {
    return test::run_command("cd " + folder.path().string() + " && " + test::hearth_binary() + " report " + words);
  }
  test::ScratchFolder folder;
};

TEST_F(ReportCommand, WritesRunsForTensorboardInFoldersOfTheirNames) {
  make_run("a/run", 3);
  make_run("b/run", 2);
  const auto result = report("a/run b/run/metrics.jsonl --tensorboard board");
  EXPECT_EQ(result.exit_code, 0) << result.output;
  EXPECT_EQ(result.output, "wrote 3 steps to board/run\nwrote 2 steps to board/run-2\n");
  const auto read =
      test::run_python(fmt::format("tests/metrics/tensorboard_reference.py {}", (folder / "board/run").string()));
  ASSERT_EQ(read.exit_code, 0) << read.output;
  const auto loss = nlohmann::json::parse(read.output).at("scalars").at("loss_metrics/global_avg_loss");
  ASSERT_EQ(loss.size(), 3u);
  EXPECT_EQ(loss[1][1], 5);
  // The records have no time. The file is of now, and each step took 2 s.
  EXPECT_NEAR(loss[2][2].get<double>(), static_cast<double>(std::time(nullptr)), 60);
  EXPECT_NEAR(loss[2][2].get<double>() - loss[0][2].get<double>(), 4, 1e-3);
}

TEST_F(ReportCommand, FilesOfTensorboardAreNeverMixed) {
  make_run("run", 3);
  EXPECT_EQ(report("run --tensorboard board").exit_code, 0);
  const auto again = report("run --tensorboard board");
  EXPECT_EQ(again.exit_code, 2);
  EXPECT_THAT(again.output, HasSubstr("error: board/run has event files already\n"));
}

TEST_F(ReportCommand, SaysWhatIsMissing) {
  make_run("run", 0);
  write_file_atomic(folder / "run/metrics.jsonl", "");
  const auto nothing = report("run");
  EXPECT_EQ(nothing.exit_code, 2);
  EXPECT_THAT(nothing.output, HasSubstr("error: report: nothing is to be written\n"));
  const auto empty = report("run --tensorboard board");
  EXPECT_EQ(empty.exit_code, 2);
  EXPECT_THAT(empty.output, HasSubstr("error: run/metrics.jsonl has no steps\n"));
  const auto missing = report("none --out loss.svg");
  EXPECT_EQ(missing.exit_code, 2);
  EXPECT_THAT(missing.output, HasSubstr("error: none does not exist\n"));
}

}  // namespace
}  // namespace hearth::commands
