// SPDX-License-Identifier: Apache-2.0
// The real binary, started as by a user.
#include <fcntl.h>
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <spawn.h>
#include <sys/resource.h>
#include <sys/wait.h>

#include <algorithm>

#include "base/text.h"
#include "commands/commands.h"
#include "support/environment.h"

namespace hearth::commands {
namespace {

using testing::HasSubstr;
using testing::Not;

using test::run_command;

std::string hearth() { return test::hearth_binary() + " "; }

TEST(Program, AloneOrWithHelpItListsTheCommandsInGroups) {
  const test::CommandResult alone = run_command(hearth());
  EXPECT_EQ(alone.exit_code, 0);
  EXPECT_EQ(run_command(hearth() + "--help").output, alone.output);
  for (const Command& command : all_commands()) {
    if (command.hidden) {
      EXPECT_THAT(alone.output, Not(HasSubstr(fmt::format("\n  {} ", command.name)))) << command.name;
      continue;
    }
    EXPECT_THAT(alone.output, HasSubstr(fmt::format("\n{}\n", command.group))) << command.group;
    EXPECT_THAT(alone.output, HasSubstr(fmt::format("\n  {} ", command.name))) << command.name;
  }
  for (const std::string& line : split_lines(alone.output)) EXPECT_LE(line.size(), kTextColumns) << line;
}

TEST(Program, TheVersionNamesBuildAndCompiler) {
  const test::CommandResult version = run_command(hearth() + "--version");
  EXPECT_EQ(version.exit_code, 0);
  EXPECT_EQ(version.output.find("hearth " HEARTH_VERSION " (" HEARTH_BUILD), 0u) << version.output;
  EXPECT_TRUE(version.output.find("g++ ") != std::string::npos || version.output.find("clang ") != std::string::npos);
}

TEST(Program, UsageErrorsExitWithTwoAndNameTheNearestCommand) {
  const auto expect = [](const std::string& words, const std::string& message) {
    const test::CommandResult result = run_command(hearth() + words);
    EXPECT_EQ(result.exit_code, 2) << words;
    EXPECT_EQ(result.output, message) << words;
  };
  const std::string list = "hearth --help lists the commands\n";
  expect("trian", "error: hearth has no command \"trian\"\n  fix: did you mean hearth train? " + list);
  expect("config shw", "error: hearth has no command \"config shw\"\n  fix: did you mean hearth config show? " + list);
  expect("generat run", "error: hearth has no command \"generat run\"\n  fix: did you mean hearth generate? " + list);
  expect("nonsense", "error: hearth has no command \"nonsense\"\n  fix: " + list);
  expect("--nonsense x", "error: hearth has no command \"--nonsense\"\n  fix: " + list);
  expect("config", "error: hearth config needs a second word\n  fix: add one of: show, check, import, diff, docs\n");
}

TEST(Program, HelpForTheFirstOfTwoWordsListsTheSecond) {
  const test::CommandResult help = run_command(hearth() + "config --help");
  EXPECT_EQ(help.exit_code, 0);
  EXPECT_THAT(help.output, HasSubstr("config check"));
  EXPECT_THAT(help.output, Not(HasSubstr("train")));
}

// The option of a line such as "  --out DIR    help" in an option list, and whether it takes a value.
struct ListedOption {
  std::string name;
  bool takes_value;
};

std::vector<ListedOption> listed_options(const std::string& help) {
  std::vector<ListedOption> options;
  for (const std::string& line : split_lines(help)) {
    if (!line.starts_with("  --")) continue;
    const size_t end = std::min(line.find(' ', 2), line.size());
    options.push_back({line.substr(2, end - 2), end + 1 < line.size() && line[end + 1] != ' '});
  }
  return options;
}

TEST(Program, EveryCommandHasHelpAndTakesEveryOptionThatItLists) {
  for (const Command& command : all_commands()) {
    const std::string words = hearth() + std::string(command.name);
    const test::CommandResult help = run_command(words + " --help");
    EXPECT_EQ(help.exit_code, 0) << command.name;
    EXPECT_EQ(help.output.find(fmt::format("usage: hearth {}", command.name)), 0u) << command.name;
    EXPECT_THAT(help.output, HasSubstr(fmt::format("\nexample:\n  hearth {}", command.name))) << command.name;
    const std::vector<ListedOption> options = listed_options(help.output);
    EXPECT_FALSE(options.empty()) << command.name;
    for (const ListedOption& option : options) {
      if (option.takes_value) {
        // Without its value: nothing is run.
        const test::CommandResult result = run_command(words + " " + option.name);
        EXPECT_EQ(result.exit_code, 2) << command.name << " " << option.name;
        EXPECT_EQ(result.output.find(fmt::format("error: {} needs a value\n", option.name)), 0u) << result.output;
      } else if (option.name != "--help") {
        const test::CommandResult result = run_command(words + " " + option.name + " --no-such-option");
        EXPECT_EQ(
            result.output.find(fmt::format("error: hearth {} does not take \"--no-such-option\"\n", command.name)), 0u)
            << result.output;
      }
    }
  }
}

TEST(Program, EveryExampleInTheHelpIsUnderstood) {
  // The binary alone: it ends soon, without such files, hearth-train and a network. Only the usage must be right.
  const test::ScratchFolder folder;
  std::filesystem::copy_file(test::hearth_binary(), folder / "hearth");
  for (const Command& command : all_commands()) {
    for (const std::string& example : split_lines(command.example)) {
      const std::string words = example.substr(0, example.find(" > "));
      const test::CommandResult result =
          run_command(fmt::format("cd {} && HF_HUB_OFFLINE=1 ./hearth {}", folder.path().string(), words));
      EXPECT_FALSE(result.output.starts_with(fmt::format("error: hearth {} ", command.name))) << result.output;
      EXPECT_FALSE(result.output.starts_with("error: --")) << example << "\n" << result.output;
      EXPECT_NE(result.exit_code, 5) << example << "\n" << result.output;
    }
  }
}

// Milliseconds of a processor from spawn to exit: what a user waits where nothing else runs.
double start_ms() {
  const std::string binary = test::hearth_binary();
  std::string name = "hearth";
  char* arguments[] = {name.data(), nullptr};
  char* environment[] = {nullptr};
  posix_spawn_file_actions_t actions;
  ::posix_spawn_file_actions_init(&actions);
  ::posix_spawn_file_actions_addopen(&actions, STDOUT_FILENO, "/dev/null", O_WRONLY, 0);
  pid_t child = 0;
  EXPECT_EQ(::posix_spawn(&child, binary.c_str(), &actions, nullptr, arguments, environment), 0);
  int status = 0;
  rusage used{};
  ::wait4(child, &status, 0, &used);
  ::posix_spawn_file_actions_destroy(&actions);
  EXPECT_EQ(status, 0);
  const auto ms = [](const timeval& time) {
    return 1e3 * static_cast<double>(time.tv_sec) + 1e-3 * static_cast<double>(time.tv_usec);
  };
  return ms(used.ru_utime) + ms(used.ru_stime);
}

// A script would take half a list for the whole.
TEST(Program, AResultThatStandardOutputDoesNotTakeIsAnError) {
  for (const std::string& words : std::vector<std::string>{"--help", "config docs", "data build --help"}) {
    const test::CommandResult full = run_command("(" + hearth() + words + " 2>&1 >/dev/full)");
    EXPECT_EQ(full.exit_code, 4) << words;
    EXPECT_THAT(full.output, HasSubstr("standard output")) << words;
    EXPECT_THAT(full.output, HasSubstr("No space left on device")) << words;
    const test::CommandResult closed = run_command("(" + hearth() + words + " 2>&1 >&-)");
    EXPECT_EQ(closed.exit_code, 2) << words;
    EXPECT_THAT(closed.output, HasSubstr("closed")) << words;
  }
}

TEST(Program, StartsWithinTwentyMilliseconds) {
  // The fastest of many: other work on the machine makes memory slower.
  double fastest = 1e9;
  for (int i = 0; i < 30; ++i) fastest = std::min(fastest, start_ms());
  RecordProperty("start_us", static_cast<int>(fastest * 1000));
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
  GTEST_SKIP() << "sanitizers start slowly: " << fastest << " ms";
#endif
  EXPECT_LE(fastest, 20.0);
}

}  // namespace
}  // namespace hearth::commands
