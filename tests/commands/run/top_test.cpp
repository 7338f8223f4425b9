// SPDX-License-Identifier: Apache-2.0
// `hearth top`, in a terminal (top_terminal.py) and without one.
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "metrics/jsonl.h"
#include "support/environment.h"
#include "support/hearth_command.h"

namespace hearth::commands {
namespace {

using nlohmann::json;
using testing::Contains;
using testing::HasSubstr;
using testing::StartsWith;

struct TopCommand : ::testing::Test {
  TopCommand() {
    make_folders(folder / "run");
    write_steps(folder / "run" / "metrics.jsonl", 1, 60);
    write_steps(folder / "more.jsonl", 61, 70);
    write_file_atomic(folder / "run" / "config.toml", "[training]\nsteps = 100\n");
    write_file_atomic(folder / "run" / "plan.json",
                      R"({"tokens_per_second": 100, "memory_bytes": 1073741824, "before_bytes": 0})");
  }
  void write_steps(const Path& file, int64_t first, int64_t last) {
    metrics::JsonlWriter writer(file);
    for (int64_t step = first; step <= last; ++step) {
      metrics::StepRecord r;
      r.step = step;
      r.loss = 100.0 / static_cast<double>(step);
      r.step_s = 2;
      r.time = 1764083000 + 2.0 * static_cast<double>(step);
      r.tokens_per_second = 50;
      r.mfu = 0.25;
      r.memory_bytes = 1 << 29;
      writer.append(r);
    }
  }
  json in_terminal(const std::string& key) {
    const auto run = test::run_command(
        fmt::format("{} {} {} {} {} {}", test::oracle_python(), test::source_path("tests/commands/run/top_terminal.py"),
                    test::hearth_binary(), (folder / "run").string(), (folder / "more.jsonl").string(), key));
    EXPECT_EQ(run.exit_code, 0) << run.output;
    return run.exit_code == 0 ? json::parse(run.output) : json();
  }
  test::ScratchFolder folder;
};

TEST_F(TopCommand, DrawsTheRunAndEndsWithTheKeyQ) {
  HEARTH_NEEDS_ORACLE();
  const json found = in_terminal("q");
  ASSERT_FALSE(found.is_null());
  const std::vector<std::string> first = found.at("first"), later = found.at("later");
  ASSERT_LE(first.size(), 30u);
  // 40 steps of 2 s are left, then 30.
  EXPECT_EQ(first[0], "run  step 60/100  loss 1.6667  50 tokens/s  mfu 25.0%  1 min 20 s left  stopped");
  EXPECT_EQ(later[0], "run  step 70/100  loss 1.4286  50 tokens/s  mfu 25.0%  1 min 00 s left  stopped");
  EXPECT_THAT(first[1], HasSubstr("]  60.0 %"));
  EXPECT_THAT(first, Contains("tokens     [####################....................] 50/s, planned 100/s"));
  EXPECT_THAT(first, Contains("mfu        [##########..............................] 25.0 %"));
  EXPECT_THAT(first, Contains("memory     [####################....................] 512.0 MiB, planned 1.00 GiB"));
  EXPECT_THAT(first, Contains("         steps 1 to 60, loss"));
  EXPECT_EQ(first.back(), "q or Ctrl-C ends");
  EXPECT_EQ(found.at("started"), true);
  EXPECT_EQ(found.at("after"), "\x1b[?25h\x1b[?1049l") << "the cursor, and the screen of before";
  EXPECT_EQ(found.at("terminal_restored"), true);
  EXPECT_EQ(found.at("exit_code"), 0);
}

TEST_F(TopCommand, CtrlCEndsItWell) {
  HEARTH_NEEDS_ORACLE();
  const json found = in_terminal("");
  ASSERT_FALSE(found.is_null());
  EXPECT_EQ(found.at("exit_code"), 0);
  EXPECT_EQ(found.at("terminal_restored"), true);
}

// Without a terminal it prints lines, and the run has ended.
TEST_F(TopCommand, PrintsPlainLinesWithoutATerminal) {
  const auto shown = test::run_hearth(fmt::format("top {}", (folder / "run").string()));
  EXPECT_EQ(shown.exit_code, 0);
  EXPECT_EQ(shown.output, "step 60/100  loss 1.6667  50 tokens/s  mfu 25.0%  1 min 20 s left  stopped\n");
}

TEST_F(TopCommand, AFolderThatIsNotThereIsOneError) {
  const auto shown = test::run_hearth(fmt::format("top {}", (folder / "nothing").string()));
  EXPECT_EQ(shown.exit_code, 2);
  EXPECT_THAT(shown.output, StartsWith("error: there is no run folder "));
  make_folders(folder / "empty");
  const auto empty =
      test::run_command(fmt::format("timeout 10 {} top {}", test::hearth_binary(), (folder / "empty").string()));
  EXPECT_EQ(empty.exit_code, 2);
  EXPECT_THAT(empty.output, HasSubstr(" has no training\n"));
}

}  // namespace
}  // namespace hearth::commands
