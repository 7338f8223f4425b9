// Processes that end well, fail, are killed or hang: the others end in time, and the exit code says why.
#include "launch/local_ranks.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
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

int sleep_long() {
  std::this_thread::sleep_for(std::chrono::seconds(60));
  return 0;
}

int code_of(int64_t ranks, const std::function<int(const Place&)>& rank_main) {
  return run_local_ranks(ranks, rank_main).code;
}

double seconds(const std::function<void()>& body) {
  const auto begin = std::chrono::steady_clock::now();
  body();
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
}

TEST(LocalRanks, HaveTheirNumbersAndOneAddressPerStart) {
  const hearth::test::ScratchFolder scratch;
  for (const std::string start : {"first", "second"}) {
    EXPECT_EQ(code_of(3,
                      [&](const Place& place) {
                        write_file_atomic(scratch / fmt::format("{}-{}", start, place.rank),
                                          fmt::format("{} {}", place.size, place.address));
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
  EXPECT_EQ(code_of(3, [](const Place& place) { return place.rank == 0 ? 3 : 5; }), 3);
  EXPECT_EQ(code_of(3, [](const Place& place) { return place.rank == 2 ? 2 : 0; }), 2);
  EXPECT_EQ(code_of(2, [](const Place&) { return kLeave; }), kLeave);
}

TEST(LocalRanks, EndWithinASecondIfOneIsKilled) {
  for (const int64_t victim : {0, 2}) {
    int code = 0;
    const double taken_s = seconds([&] {
      code = code_of(3, [&](const Place& place) {
        if (place.rank == victim) ::raise(SIGKILL);
        return sleep_long();
      });
    });
    EXPECT_EQ(code, kHardware) << victim;
    EXPECT_LT(taken_s, 1.5) << victim;  // on a busy machine
  }
}

TEST(LocalRanks, AreNotHurriedIfOneIsAskedToLeave) {
  EXPECT_EQ(code_of(2,
                    [](const Place& place) {
                      if (place.rank == 1) std::this_thread::sleep_for(std::chrono::milliseconds(1500));
                      return kLeave;
                    }),
            kLeave);
}

TEST(LocalRanks, GetTheSignalsOfTheirParent) {
  static int number;
  for (const int signal : {SIGTERM, SIGUSR2}) {
    number = signal;
    const hearth::test::ScratchFolder scratch;
    const pid_t parent = ::getpid();
    const int code = code_of(2, [&](const Place& place) {
      static volatile sig_atomic_t asked = 0;
      ::signal(number, [](int) { asked = 1; });
      write_file_atomic(scratch / fmt::format("ready-{}", place.rank), "");
      while (!path_exists(scratch / "ready-0") || !path_exists(scratch / "ready-1")) ::usleep(1000);
      if (place.rank == 0) ::kill(parent, number);
      for (int i = 0; i < 5000 && asked == 0; ++i) ::usleep(1000);
      return asked != 0 ? kLeave : 1;
    });
    EXPECT_EQ(code, kLeave) << signal;
  }
}

// Rank 0 asks its parent, which asks all of them.
LocalEnd interrupted_after(std::chrono::milliseconds pause) {
  const pid_t parent = ::getpid();
  return run_local_ranks(2, [parent, pause](const Place& place) {
    ::signal(SIGINT, [](int) {});
    std::this_thread::sleep_for(std::chrono::milliseconds(100));
    if (place.rank == 0) ::kill(parent, SIGINT);
    for (const auto until = std::chrono::steady_clock::now() + pause; std::chrono::steady_clock::now() < until;)
      std::this_thread::sleep_until(until);  // a signal wakes it
    if (place.rank == 0) ::kill(parent, SIGINT);
    std::this_thread::sleep_for(std::chrono::milliseconds(500));
    std::this_thread::sleep_for(std::chrono::milliseconds(500));
    return kLeave;
  });
}

TEST(LocalRanks, EndAtTheUsersNextInterrupt) {
  const LocalEnd end = interrupted_after(std::chrono::milliseconds(1500));
  EXPECT_EQ(end.code, 130);
  EXPECT_TRUE(end.asked_to_leave);
}

TEST(LocalRanks, TakeTwoInterruptsAtOnceForOne) {
  const LocalEnd end = interrupted_after(std::chrono::milliseconds(10));
  EXPECT_EQ(end.code, kLeave);
  EXPECT_TRUE(end.asked_to_leave);
}

// Rank 0 reports the death of rank 1 as a failure of hardware.
TEST(LocalRanks, HaveNotFailedIfAnInterruptEndsOne) {
  const LocalEnd end = run_local_ranks(2, [](const Place& place) {
    if (place.rank == 1) ::raise(SIGINT);
    std::this_thread::sleep_for(std::chrono::milliseconds(100));
    return kHardware;
  });
  EXPECT_EQ(end.code, 130);
}

TEST(LocalRanks, SayThatTheUserAskedOfOneThatFailsAfterwards) {
  const pid_t parent = ::getpid();
  const auto fail_after = [&](int number) {
    return run_local_ranks(1, [&](const Place&) {
      ::signal(number, [](int) {});
      ::kill(parent, number);
      std::this_thread::sleep_for(std::chrono::milliseconds(500));
      return kHardware;
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
