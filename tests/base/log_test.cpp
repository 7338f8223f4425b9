// SPDX-License-Identifier: Apache-2.0
#include "base/log.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include "base/error.h"
#include "base/text.h"
#include "support/environment.h"

namespace hearth {
namespace {

TEST(Log, MessagesGoToStderrAsTheyStandAndThoseForFilesDoNot) {
  testing::internal::CaptureStderr();
  log_message(LogLevel::kInfo, "100 % of {} in two\n  lines");
  log_info("{} bytes became U+FFFD", 3);
  log_message(LogLevel::kDebug, "for files");
  log_error("damaged: {}", "x");
  EXPECT_EQ(testing::internal::GetCapturedStderr(), "100 % of {} in two\n  lines\n3 bytes became U+FFFD\ndamaged: x\n");
}

// fmt::print throws there, and would end what goes on without a reader: a training whose ranks start again.
TEST(Log, AStreamThatTakesNothingEndsNothing) {
  EXPECT_EXIT(
      {
        if (::dup2(::open("/dev/full", O_WRONLY), STDERR_FILENO) < 0) ::_exit(2);
        log_info("the disk is {}", "full");
        ::_exit(0);
      },
      testing::ExitedWithCode(0), "");
}

// A job's script says which of its starts a process belongs to.
TEST(Log, ErrorsNameTheirSpeakerAtTheEndOfTheirFirstLine) {
  ::setenv(kSpeakerVariable, "start 2.1", 1);
  testing::internal::CaptureStderr();
  log_message(LogLevel::kError, "error: a\n  why: b");
  log_message(LogLevel::kError, "error: c");
  log_message(LogLevel::kError, "ended by Ctrl-C");
  log_message(LogLevel::kInfo, "error: is not one");
  ::unsetenv(kSpeakerVariable);
  log_message(LogLevel::kError, "error: d");
  EXPECT_EQ(testing::internal::GetCapturedStderr(),
            "error: a (start 2.1)\n  why: b\nerror: c (start 2.1)\nended by Ctrl-C\nerror: is not one\nerror: d\n");
}

TEST(RankLog, GrowsWithTimeRankAndLevelOfEachMessage) {
  const test::ScratchFolder scratch;
  for (int i = 0; i < 2; ++i) {
    RankLog log(scratch / "logs", 12);
    log.write(LogLevel::kDebug, "begin {}");
    log.write(LogLevel::kWarning, "step 3: loss is nan");
  }
  const std::vector<std::string> lines = split_lines(read_file(scratch / "logs/rank-00012.log"));
  ASSERT_EQ(lines.size(), 4u);
  for (size_t i = 0; i < 4; ++i) {
    // "2026-11-23 06:46:50.434" and then what is not the time's.
    ASSERT_GT(lines[i].size(), 24u);
    EXPECT_EQ(lines[i][4], '-');
    EXPECT_EQ(lines[i][19], '.');
    EXPECT_EQ(lines[i].substr(23), i % 2 == 0 ? " rank 12 debug: begin {}" : " rank 12 warning: step 3: loss is nan");
  }
}

TEST(RankLog, AFileThatCannotBeOpenedIsNamed) {
  const test::ScratchFolder scratch;
  make_folders(scratch / "logs/rank-00000.log");
  try {
    RankLog log(scratch / "logs", 0);
    FAIL() << "no error";
  } catch (const Error& e) {
    EXPECT_EQ(e.message(), "cannot write " + (scratch / "logs/rank-00000.log").string());
    EXPECT_EQ(e.why(), "Is a directory");
    EXPECT_EQ(e.code(), ExitCode::kUser);
  }
}

}  // namespace
}  // namespace hearth
