// SPDX-License-Identifier: Apache-2.0
// `hearth report --serve`: as a browser and a plain client see it (live_page.py).
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
using testing::HasSubstr;
using testing::StartsWith;

struct ServedReport : ::testing::Test {
  ServedReport() {
    make_folders(folder / "run");
    write_steps(folder / "run" / "metrics.jsonl", 1, 6);
    write_steps(folder / "more.jsonl", 7, 9);
  }
  void write_steps(const Path& file, int64_t first, int64_t last) {
    metrics::JsonlWriter writer(file);
    for (int64_t step = first; step <= last; ++step) {
      metrics::StepRecord r;
      r.step = step;
      r.loss = 10.0 / static_cast<double>(step);
      r.step_s = 2;
      r.tokens_per_second = 50;
      writer.append(r);
    }
  }
  json serve(const std::string& how) {
    const auto run = test::run_command(
        fmt::format("{} {} {} {} {} {}", test::oracle_python(), test::source_path("tests/commands/run/live_page.py"),
                    test::hearth_binary(), (folder / "run").string(), (folder / "more.jsonl").string(), how));
    if (run.exit_code == 77) return {};
    EXPECT_EQ(run.exit_code, 0) << run.output;
    return run.exit_code == 0 ? json::parse(run.output) : json();
  }
  test::ScratchFolder folder;
};

TEST_F(ServedReport, AnswersThisHostAloneAndCtrlCEndsItWell) {
  HEARTH_NEEDS_ORACLE();
  const json found = serve("");
  ASSERT_FALSE(found.is_null());
  EXPECT_THAT(found.at("first_line").get<std::string>(), StartsWith("http://127.0.0.1:"));
  EXPECT_THAT(found.at("first_line").get<std::string>(), HasSubstr("/ shows run (Ctrl-C ends)"));
  EXPECT_EQ(found.at("exit_code"), 0);
  EXPECT_EQ(found.at("listens"), json::array({"0100007F"})) << "127.0.0.1, as the kernel writes it";
  EXPECT_EQ(found.at("status"), (json{{"/", 200}, {"/nothing", 404}, {"foreign", 403}, {"POST", 405}, {"HEAD", 200}}));
  EXPECT_EQ(found.at("data_steps"), json::array({6, 9}));
  EXPECT_EQ(found.at("versions_differ"), true);
  EXPECT_EQ(found.at("beside_others"), true);
  ASSERT_EQ(found.at("unreadable").size(), 1u);
  EXPECT_THAT(found.at("unreadable")[0].get<std::string>(), HasSubstr("it cannot be read now: "));
}

TEST_F(ServedReport, ThePageFollowsTheRunAndKeepsWhatWasChosen) {
  HEARTH_NEEDS_ORACLE();
  const json found = serve("browser");
  if (found.is_null()) GTEST_SKIP() << "there is no Chromium or no Playwright";
  EXPECT_EQ(found.at("errors"), json::array());
  EXPECT_EQ(found.at("hosts"), json::array({"127.0.0.1"}));
  EXPECT_EQ(found.at("points"), json::array({6, 9}));
  EXPECT_EQ(found.at("zoom"), (json{{2, 4}, {2, 4}}));
  EXPECT_EQ(found.at("log"), true);
  EXPECT_EQ(found.at("exit_code"), 0);
}

TEST_F(ServedReport, WrongOptionsAndATakenPortAreOneClearError) {
  const std::string run = (folder / "run").string();
  EXPECT_THAT(test::run_hearth(fmt::format("report {} --serve --out a.html", run)).output,
              HasSubstr("error: --serve writes nothing"));
  EXPECT_THAT(test::run_hearth(fmt::format("report {} --port 80 --out a.html", run)).output,
              HasSubstr("error: --port is for --serve"));
  const auto nothing = test::run_hearth(fmt::format("report {} --serve --port 0", (folder / "nothing").string()));
  EXPECT_EQ(nothing.exit_code, 2);
  EXPECT_THAT(nothing.output, HasSubstr("does not exist"));
  const auto taken = test::run_command(
      fmt::format("{} -c \"import socket, subprocess, sys; s = socket.create_server(('127.0.0.1', 0)); "
                  "sys.exit(subprocess.call(['{}', 'report', '{}', '--serve', '--port', str(s.getsockname()[1])]))\"",
                  test::oracle_python(), test::hearth_binary(), run));
  EXPECT_EQ(taken.exit_code, 2);
  EXPECT_THAT(taken.output, HasSubstr("of this host is taken"));
}

}  // namespace
}  // namespace hearth::commands
