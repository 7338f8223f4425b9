// SPDX-License-Identifier: Apache-2.0
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
      metrics::StepRecord r;
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
  const auto now = [] { return static_cast<double>(std::time(nullptr)); };
  const double before = now();
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
  EXPECT_GE(loss[2][2].get<double>(), before - 1);
  EXPECT_LE(loss[2][2].get<double>(), now() + 1);
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

// A page shows what can be read and says what cannot. A picture has no place for notes: it refuses a damaged line.
TEST_F(ReportCommand, ADamagedOrHalfWrittenRunHasAClearOutcome) {
  const auto page_of = [this](const std::string& name) {
    const auto made = report(name + " --out page.html");
    EXPECT_EQ(made.exit_code, 0) << name << made.output;
    return read_file(folder / "page.html");
  };
  make_run("torn", 5);
  File::open_append(folder / "torn/metrics.jsonl").write("{\"step\": 6, \"lo");
  EXPECT_THAT(page_of("torn"),
              HasSubstr("metrics.jsonl ends within a line: the training writes it now, or was killed"));
  EXPECT_EQ(report("torn --out loss.svg").exit_code, 0);

  make_run("garbage", 5);
  File::open_append(folder / "garbage/metrics.jsonl").write("\xff\xfe\n[]\n{\"step\": 1e300}\n");
  EXPECT_THAT(page_of("garbage"), HasSubstr("metrics.jsonl has 3 damaged lines, left out here; the first is line 6"));
  const auto picture = report("garbage --out loss.svg");
  EXPECT_EQ(picture.exit_code, 3);
  EXPECT_THAT(picture.output, HasSubstr("error: garbage/metrics.jsonl:6 is not a line of a metrics file\n"));

  make_run("half", 5);  // killed while it wrote its configuration and a checkpoint
  write_file_atomic(folder / "half/config.toml", "[training\n");
  make_folders(folder / "half/checkpoints/step-00000004");
  write_file_atomic(folder / "half/checkpoints/step-00000004/hearth.json", "{\"step\"");
  make_folders(folder / "half/scores.jsonl");
  make_folders(folder / "half/plan.json");
  const std::string half = page_of("half");
  EXPECT_THAT(half, HasSubstr("its configuration is not known: "));
  EXPECT_THAT(half, HasSubstr("its newest checkpoint cannot be read: "));
  EXPECT_THAT(half, HasSubstr("half/scores.jsonl is a folder, not a file"));
  EXPECT_THAT(half, HasSubstr("half/plan.json is a folder, not a file"));

  make_folders(folder / "empty");
  const auto empty = report("empty --out page.html");
  EXPECT_EQ(empty.exit_code, 2);
  EXPECT_THAT(empty.output, HasSubstr("error: empty/metrics.jsonl does not exist\n"));
  make_folders(folder / "folder/metrics.jsonl");
  EXPECT_EQ(report("folder --out page.html").exit_code, 2);
}

// The numbers of a page, out of its HTML.
nlohmann::json data_of(const std::string& html) {
  const std::string begin = "id=\"data\">";
  const size_t at = html.find(begin) + begin.size();
  return nlohmann::json::parse(html.substr(at, html.find("</script>", at) - at));
}

// 2026-01-31T10:00:00Z is 1769853600.
TEST_F(ReportCommand, ARestartHasTheReasonThatItsJobWroteDown) {
  make_folders(folder / "run");
  metrics::JsonlWriter writer(folder / "run/metrics.jsonl");
  const auto step = [&writer](int64_t number) {
    metrics::StepRecord r;
    r.step = number;
    writer.append(r);
  };
  for (const int64_t number : {1, 2, 3}) step(number);
  writer.append(metrics::Event{.name = "resume", .step = 2, .time = 1769853670});
  step(3);
  writer.append(metrics::Event{.name = "resume", .step = 3, .time = 1769857200});
  write_file_atomic(
      folder / "run/starts.jsonl",
      R"({"event": "submit", "time": "2026-01-31T10:00:00Z", "job": "12", "cluster": "<b>", "nodes": 2, "ranks": 16}
{"event": "start", "time": "2026-01-31T10:00:05Z", "host": "n1", "job": "12", "step": 0}
{"event": "end", "time": "2026-01-31T10:01:00Z", "job": "12", "step": 2, "code": 137, "next": "again", "why": "killed"}
{"event": "start", "time": "2026-01-31T10:01:01Z", "host": "n1", "job": "12", "step": 2}
{"event": "stop", "ti)");
  ASSERT_EQ(report("run --out page.html").exit_code, 0);
  const nlohmann::json run = data_of(read_file(folder / "page.html")).at("runs").at(0);
  const nlohmann::json& events = run.at("events");
  ASSERT_EQ(events.size(), 2u);
  EXPECT_EQ(events[0].at("reason"), "killed");
  EXPECT_EQ(events[0].at("from_step"), 3);
  EXPECT_EQ(events[1].at("reason"), "") << "no end is written between the two";
  const nlohmann::json& jobs = run.at("jobs");
  ASSERT_EQ(jobs.size(), 4u);
  EXPECT_EQ(jobs[0].at("what"), "submitted to <b>: 2 nodes, 16 ranks");
  EXPECT_EQ(jobs[0].at("time"), 1769853600);
  EXPECT_EQ(jobs[2].at("what"),
            "the ranks ended (exit code 137), with a checkpoint of step 2, and the ranks start again");
  EXPECT_EQ(jobs[2].at("reason"), "killed");
  EXPECT_EQ(jobs[3].at("what"), "the ranks start after step 2 on n1");
}

// Numbers at the ends of what a file can hold.
TEST_F(ReportCommand, ExtremeNumbersDoNotEndIt) {
  make_run("run", 3);
  const std::string rest =
      ", \"loss\": 1e-310, \"tokens\": 9223372036854775807, \"tokens_per_second\": 1e308, \"mfu\": 1e308, "
      "\"data_wait_s\": 0, \"step_s\": 1e308, \"memory_bytes\": 0}\n";
  for (const char* step : {"4", "9007199254740992", "9223372036854775807", "-5"})
    File::open_append(folder / "run/metrics.jsonl").write(fmt::format("{{\"step\": {}{}", step, rest));
  const auto made = report("run --out page.html");
  EXPECT_EQ(made.exit_code, 0) << made.output;
  const nlohmann::json run = data_of(read_file(folder / "page.html")).at("runs").at(0);
  EXPECT_EQ(run.at("last_step"), 9007199254740992);
  EXPECT_THAT(run.at("notes").at(0).get<std::string>(), HasSubstr("has 2 damaged lines"));
}

}  // namespace
}  // namespace hearth::commands
