// SPDX-License-Identifier: Apache-2.0
// hearth-train has the commands of hearth's table that need LibTorch, with the same words.
#include <gtest/gtest.h>

#include "base/text.h"
#include "commands/commands.h"
#include "support/environment.h"

namespace hearth::run {
namespace {

TEST(Program, HearthTrainRunsWhatHearthLists) {
  const std::string hearth = test::run_command(test::hearth_binary() + " --help").output;
  const std::string train = test::run_command(test::hearth_binary() + "-train --help").output;
  size_t listed = 0;
  for (const commands::Command& command : commands::all_commands()) {
    const auto lists = [&](const std::string& help) {
      for (const std::string& line : split_lines(help))
        if (line.starts_with(fmt::format("  {} ", command.name)) && line.ends_with(command.help)) return true;
      return false;
    };
    EXPECT_EQ(lists(hearth), !command.hidden) << command.name;
    EXPECT_EQ(lists(train), command.torch != nullptr) << command.name;
    if (command.torch != nullptr) ++listed;
  }
  EXPECT_GT(listed, 0U);
  const std::string help = test::run_command(test::hearth_binary() + "-train bench gemm --help").output;
  EXPECT_TRUE(help.ends_with("example:\n  hearth-train bench gemm --dtype bfloat16\n")) << help;
}

}  // namespace
}  // namespace hearth::run
