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

double seconds(const std::function<void()>& body) {
  const auto begin = std::chrono::steady_clock::now();
  body();
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
}

TEST(LocalRanks, HaveTheirNumbersAndOneAddressPerStart) {
  const hearth::test::ScratchFolder scratch;
  for (const std::string start : {"first", "second"}) {
    EXPECT_EQ(run_local_ranks(3,
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
  EXPECT_EQ(run_local_ranks(3, [](const Place& place) { return place.rank == 0 ? 3 : 5; }), 3);
  EXPECT_EQ(run_local_ranks(3, [](const Place& place) { return place.rank == 2 ? 2 : 0; }), 2);
  EXPECT_EQ(run_local_ranks(2, [](const Place&) { return kLeave; }), kLeave);
}

TEST(LocalRanks, EndWithinASecondIfOneIsKilled) {
  for (const int64_t victim : {0, 2}) {
    int code = 0;
    const double taken_s = seconds([&] {
      code = run_local_ranks(3, [&](const Place& place) {
        if (place.rank == victim) ::raise(SIGKILL);
        return sleep_long();
      });
    });
    EXPECT_EQ(code, kHardware) << victim;
    EXPECT_LT(taken_s, 1.5) << victim;  // on a busy machine
  }
}

TEST(LocalRanks, AreNotHurriedIfOneIsAskedToLeave) {
  EXPECT_EQ(run_local_ranks(2,
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
    const int code = run_local_ranks(2, [&](const Place& place) {
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

}  // namespace
}  // namespace hearth::launch
