// SPDX-License-Identifier: Apache-2.0
// The surroundings of tests: a scratch folder, the built binaries, and the oracle's python.
#pragma once

#include <gtest/gtest.h>

#include <fmt/format.h>
#include <sys/wait.h>
#include <unistd.h>
#include <cstdio>
#include <cstdlib>
#include <string>

#include "base/file.h"

namespace hearth::test {

// Where tests write: TMPDIR, or memory where 2 GiB are free, or /tmp. With fsync and thousands of small files, a disk
// takes up to 60 times as long.
inline Path scratch_parent() {
  std::error_code missing;
  const auto space = std::filesystem::space("/dev/shm", missing);
  const bool in_memory = std::getenv("TMPDIR") == nullptr && !missing && space.available >= uintmax_t{2} << 30;
  return in_memory ? "/dev/shm" : std::filesystem::temp_directory_path();
}

// A folder that is new for each object and removed with it.
class ScratchFolder {
 public:
  ScratchFolder() {
    std::string pattern = (scratch_parent() / "hearth-test-XXXXXX").string();
    path_ = ::mkdtemp(pattern.data());
  }
  ~ScratchFolder() {
    std::error_code ignored;
    std::filesystem::remove_all(path_, ignored);
  }
  ScratchFolder(const ScratchFolder&) = delete;
  ScratchFolder& operator=(const ScratchFolder&) = delete;
  const Path& path() const { return path_; }
  operator const Path&() const { return path_; }
  Path operator/(const std::string& name) const { return path_ / name; }

 private:
  Path path_;
};

struct CommandResult {
  int exit_code;       // 128 + signal if killed; 124 after kCommandLimit_s
  std::string output;  // stdout and stderr together
};

// A command that hangs ends with its output in the test's message, before CTest ends the whole program.
inline constexpr int kCommandLimit_s = 1200;

// The text as one word of sh.
inline std::string shell_quoted(const std::string& text) {
  std::string quoted = "'";
  for (const char c : text) quoted += c == '\'' ? "'\\''" : std::string(1, c);
  return quoted + "'";
}

inline CommandResult run_command(const std::string& command_line) {
  std::fflush(nullptr);
  const std::string limited =
      fmt::format("timeout --kill-after=10 {} sh -c {} 2>&1", kCommandLimit_s, shell_quoted(command_line + " 2>&1"));
  FILE* pipe = ::popen(limited.c_str(), "r");
  CommandResult result{-1, {}};
  char buffer[4096];
  for (size_t n; (n = std::fread(buffer, 1, sizeof buffer, pipe)) > 0;) result.output.append(buffer, n);
  const int status = ::pclose(pipe);
  result.exit_code = WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
  return result;
}

inline std::string source_path(const std::string& relative) { return std::string(HEARTH_SOURCE_DIR) + "/" + relative; }
inline std::string hearth_binary() { return std::string(HEARTH_BIN_DIR) + "/hearth"; }
inline std::string oracle_python() { return HEARTH_ORACLE_PYTHON; }

// Tests that compare with PyTorch start with this. scripts/test.sh always installs the oracle, so under CI a missing
// one is a failure and not a skip.
#define HEARTH_NEEDS_ORACLE()                                                                                         \
  do {                                                                                                                \
    if (!::hearth::path_exists(::hearth::test::oracle_python())) {                                                    \
      if (std::getenv("CI") != nullptr) FAIL() << "no oracle python: run scripts/setup.sh --oracle";                  \
      GTEST_SKIP() << "no oracle python at " << ::hearth::test::oracle_python() << ": run scripts/setup.sh --oracle"; \
    }                                                                                                                 \
  } while (false)

// Skips a test of commands that need hearth-train, in a build without LibTorch.
#define HEARTH_NEEDS_TRAINER()                                             \
  if (!hearth::path_exists(hearth::Path(HEARTH_BIN_DIR) / "hearth-train")) \
  GTEST_SKIP() << "this build has no "                                     \
                  "LibTorch"

}  // namespace hearth::test
