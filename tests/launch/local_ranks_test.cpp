// SPDX-License-Identifier: Apache-2.0
// Processes that end well, fail, are killed or hang: the others end in time, and the exit code says why.
#include "launch/local_ranks.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/prctl.h>
#include <sys/ptrace.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <csignal>
#include <thread>

#include "base/error.h"
#include "base/file.h"
#include "support/environment.h"

namespace hearth::launch {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

constexpr int kHardware = static_cast<int>(ExitCode::kHardware), kLeave = static_cast<int>(ExitCode::kAskedToLeave);

void pause_ms() { std::this_thread::sleep_for(std::chrono::milliseconds(1)); }

// Waits for something that comes at once, unless the machine is busy. False after ten minutes.
bool comes_true(const std::function<bool()>& condition) {
  for (int i = 0; i < 600'000 && !condition(); ++i) pause_ms();
  return condition();
}

int code_of(int64_t ranks, const std::function<int(const LaunchedRank&)>& rank_main) {
  return run_local_ranks(ranks, rank_main).code;
}

// A process's number in a file, and whether the process has ended and its parent knows that.
void write_process(const Path& file) { write_file_atomic(file, fmt::format("{}", ::getpid())); }
bool is_gone(const Path& file) { return path_exists(file) && ::kill(std::stoi(read_file(file)), 0) != 0; }

TEST(LocalRanks, HaveTheirNumbersAndOneAddressPerStart) {
  const hearth::test::ScratchFolder scratch;
  for (const std::string start : {"first", "second"}) {
    EXPECT_EQ(code_of(3,
                      [&](const LaunchedRank& launched) {
                        write_file_atomic(scratch / fmt::format("{}-{}", start, launched.rank),
                                          fmt::format("{} {}", launched.size, launched.address));
                        return 0;
                      }),
              0);
  }
  const std::string first = read_file(scratch / "first-0"), second = read_file(scratch / "second-0");
  EXPECT_THAT(first, HasSubstr("3 unix:hearth-"));
  EXPECT_EQ(read_file(scratch / "first-2"), first);
  EXPECT_NE(second, first);
}

TEST(LocalRanks, GiveTheExitCodeOfRankZeroBeforeOthers) {
  EXPECT_EQ(code_of(3, [](const LaunchedRank& launched) { return launched.rank == 0 ? 3 : 5; }), 3);
  EXPECT_EQ(code_of(3, [](const LaunchedRank& launched) { return launched.rank == 2 ? 2 : 0; }), 2);
  EXPECT_EQ(code_of(2, [](const LaunchedRank&) { return kLeave; }), kLeave);
}

TEST(LocalRanks, AreEndedIfOneIsKilled) {
  for (const int64_t victim : {0, 2}) {
    const hearth::test::ScratchFolder scratch;
    const int code = code_of(3, [&](const LaunchedRank& launched) {
      if (launched.rank == victim) ::raise(SIGKILL);
      std::this_thread::sleep_for(std::chrono::minutes(10));
      write_file_atomic(scratch / "went on", "");
      return 0;
    });
    EXPECT_EQ(code, kHardware) << victim;
    EXPECT_FALSE(path_exists(scratch / "went on")) << victim;
  }
}

// A process whose call of the kernel hangs cannot be made here. A killed process that another one traces is like it:
// its parent does not see it end until the tracer does.
TEST(LocalRanks, LeaveAProcessBehindThatDoesNotEnd) {
  const hearth::test::ScratchFolder scratch;
  const auto trace = [&](pid_t traced) {
    const bool traces = ::ptrace(PTRACE_SEIZE, traced, nullptr, nullptr) == 0;
    write_file_atomic(scratch / "tracer", traces ? "traces" : "may not");
    comes_true([&] { return path_exists(scratch / "over"); });
    ::_exit(0);
  };
  testing::internal::CaptureStderr();
  const LocalEnd end = run_local_ranks(
      2,
      [&](const LaunchedRank& launched) {
        if (launched.rank == 0) return comes_true([&] { return path_exists(scratch / "tracer"); }) ? 3 : 1;
        const pid_t rank = ::getpid();
        ::prctl(PR_SET_PTRACER, PR_SET_PTRACER_ANY);
        if (::fork() == 0) trace(rank);
        std::this_thread::sleep_for(std::chrono::minutes(10));
        return 0;
      },
      /*kill_limit=*/std::chrono::milliseconds(100));
  const std::string printed = testing::internal::GetCapturedStderr();
  write_file_atomic(scratch / "over", "");
  ::wait(nullptr);  // for rank 1, where it was left behind
  EXPECT_EQ(end.code, 3);
  if (read_file(scratch / "tracer") != "traces") GTEST_SKIP() << "processes may not trace others here";
  EXPECT_THAT(printed, testing::ContainsRegex("error: rank 1 \\(process [0-9]+\\) does not end"));
  EXPECT_THAT(printed, testing::Not(HasSubstr("rank 0")));
}

// It hangs in the last lines of its process, of which no other rank hears.
TEST(LocalRanks, AreEndedIfOneStaysLongAfterAnother) {
  testing::internal::CaptureStderr();
  const LocalEnd end = run_local_ranks(
      2,
      [](const LaunchedRank& rank) {
        if (rank.rank == 1) std::this_thread::sleep_for(std::chrono::minutes(10));
        return 0;
      },
      /*kill_limit=*/std::chrono::milliseconds(100));
  EXPECT_THAT(testing::internal::GetCapturedStderr(),
              testing::ContainsRegex("error: rank 1 \\(process [0-9]+\\) has not ended"));
  EXPECT_EQ(end.code, kHardware);
}

// Rank 1 takes longer than the second that others get after a failure.
TEST(LocalRanks, AreNotHurriedIfOneIsAskedToLeave) {
  const hearth::test::ScratchFolder scratch;
  EXPECT_EQ(code_of(2,
                    [&](const LaunchedRank& launched) {
                      if (launched.rank == 0) return write_process(scratch / "rank-0"), kLeave;
                      if (!comes_true([&] { return is_gone(scratch / "rank-0"); })) return 1;
                      std::this_thread::sleep_for(std::chrono::milliseconds(1500));
                      return kLeave;
                    }),
            kLeave);
}

// Both of two ranks have come so far.
void come_together(const Path& folder, int64_t rank) {
  write_file_atomic(folder / fmt::format("ready-{}", rank), "");
  while (!path_exists(folder / "ready-0") || !path_exists(folder / "ready-1")) pause_ms();
}

TEST(LocalRanks, GetTheSignalsOfTheirParent) {
  static int number;
  for (const int signal : {SIGTERM, SIGUSR2}) {
    number = signal;
    const hearth::test::ScratchFolder scratch;
    const pid_t parent = ::getpid();
    const int code = code_of(2, [&](const LaunchedRank& launched) {
      static volatile sig_atomic_t asked = 0;
      ::signal(number, [](int) { asked = 1; });
      come_together(scratch, launched.rank);
      if (launched.rank == 0) ::kill(parent, number);
      return comes_true([] { return asked != 0; }) ? kLeave : 1;
    });
    EXPECT_EQ(code, kLeave) << signal;
  }
}

static volatile sig_atomic_t num_interrupts = 0;

// Rank 0 asks its parent, which asks all of them. It asks again so long after it has heard of that.
LocalEnd interrupted_again_after(std::chrono::milliseconds pause) {
  const hearth::test::ScratchFolder scratch;
  const pid_t parent = ::getpid();
  return run_local_ranks(2, [&](const LaunchedRank& launched) {
    ::signal(SIGINT, [](int) { num_interrupts = num_interrupts + 1; });
    come_together(scratch, launched.rank);
    if (launched.rank == 0) ::kill(parent, SIGINT);
    if (!comes_true([] { return num_interrupts >= 1; })) return 1;
    if (launched.rank == 1) return comes_true([&] { return path_exists(scratch / "second"); }) ? kLeave : 1;
    std::this_thread::sleep_for(pause);
    ::kill(parent, SIGINT);
    if (!comes_true([] { return num_interrupts >= 2; })) return 1;
    write_file_atomic(scratch / "second", "");
    return kLeave;
  });
}

TEST(LocalRanks, EndAtTheUsersNextInterrupt) {
  const LocalEnd end = interrupted_again_after(std::chrono::milliseconds(1000));
  EXPECT_EQ(end.code, 130);
  EXPECT_TRUE(end.asked_to_leave);
}

// Within a second. If a busy machine took longer, two interrupts may count twice, and the trial is made again.
TEST(LocalRanks, TakeTwoInterruptsAtOnceForOne) {
  LocalEnd end;
  for (int trial = 0; trial < 20; ++trial) {
    const auto begin = std::chrono::steady_clock::now();
    end = interrupted_again_after(std::chrono::milliseconds(0));
    if (end.code == kLeave || std::chrono::steady_clock::now() - begin < std::chrono::seconds(1)) break;
  }
  EXPECT_EQ(end.code, kLeave);
  EXPECT_TRUE(end.asked_to_leave);
}

// Rank 0 reports the death of rank 1 as a failure of hardware.
TEST(LocalRanks, HaveNotFailedIfAnInterruptEndsOne) {
  const hearth::test::ScratchFolder scratch;
  const LocalEnd end = run_local_ranks(2, [&](const LaunchedRank& launched) {
    if (launched.rank == 1) {
      write_process(scratch / "rank-1");
      ::raise(SIGINT);
    }
    return comes_true([&] { return is_gone(scratch / "rank-1"); }) ? kHardware : 1;
  });
  EXPECT_EQ(end.code, 130);
}

TEST(LocalRanks, SayThatTheUserAskedOfOneThatFailsAfterwards) {
  static volatile sig_atomic_t asked;
  const pid_t parent = ::getpid();
  const auto fail_after = [&](int number) {
    return run_local_ranks(1, [&](const LaunchedRank&) {
      asked = 0;
      ::signal(number, [](int) { asked = 1; });
      ::kill(parent, number);
      return comes_true([] { return asked != 0; }) ? kHardware : 1;
    });
  };
  for (const int number : {SIGTERM, SIGUSR2}) {
    EXPECT_EQ(fail_after(number).code, kHardware) << number;
    EXPECT_TRUE(fail_after(number).asked_to_leave) << number;
  }
  EXPECT_FALSE(fail_after(SIGUSR1).asked_to_leave) << "it asks for a save";
}

}  // namespace
}  // namespace hearth::launch
