// SPDX-License-Identifier: Apache-2.0
// Models of other programs, and comparisons by these programs.
#pragma once

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fmt/format.h>

#include <algorithm>

#include "base/text.h"
#include "support/hearth_command.h"
#include "support/python.h"

namespace hearth::convert {

// The last line that a command printed; a test failure if it failed. `words`: the command, for the message.
inline std::string last_line(const test::CommandResult& result, const std::string& words) {
  EXPECT_EQ(result.exit_code, 0) << words << "\n" << result.output;
  const std::vector<std::string> lines = split_lines(result.output);
  const auto last = std::find_if(lines.rbegin(), lines.rend(), [](const std::string& line) { return !line.empty(); });
  return last == lines.rend() ? "" : *last;
}

// Runs a command of tests/convert/foreign.py; returns the last line that it prints.
inline std::string foreign(const std::string& words) {
  const test::CommandResult result = test::run_python("tests/convert/foreign.py " + words);
  return last_line(result, words);
}

// Runs `hearth convert`, which has to succeed; returns what it prints.
inline std::string converted(const std::string& words) {
  const test::CommandResult result = test::run_hearth("convert " + words);
  EXPECT_EQ(result.exit_code, 0) << words << "\n" << result.output;
  return result.output;
}

// Runs `hearth convert`, which has to refuse with this exit code; returns what it prints.
inline std::string refused(const std::string& words, int exit_code = 2) {
  const test::CommandResult result = test::run_hearth("convert " + words);
  EXPECT_EQ(result.exit_code, exit_code) << words << "\n" << result.output;
  return result.output;
}

inline void write_text(const Path& path, std::string_view text) {
  File file = File::create(path);
  file.write(text);
  file.close();
}

// Replaces the first `from` in a file of text.
inline void edit(const Path& path, std::string_view from, std::string_view to) {
  std::string text = read_file(path);
  const size_t at = text.find(from);
  ASSERT_NE(at, std::string::npos) << path << " has no " << from;
  write_text(path, text.replace(at, from.size(), to));
}

}  // namespace hearth::convert
