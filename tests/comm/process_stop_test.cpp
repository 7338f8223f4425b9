// SPDX-License-Identifier: Apache-2.0
// Rank 0 is stopped and wakes later, or never meets the others: one error says so.
#include <sys/wait.h>

#include <optional>

#include "base/file.h"
#include "base/text.h"
#include "comm/process_control.h"
#include "comm/socket.h"
#include "process_end.h"
#include "support/environment.h"

namespace hearth::comm {
namespace {

using testing::HasSubstr;
using testing::Not;

bool is_stopped(pid_t process) {
  const std::string stat = read_file("/proc/" + std::to_string(process) + "/stat");
  const size_t state = stat.rfind(") ");
  return state != std::string::npos && stat[state + 2] == 'T';
}

// Rank 0 leaves a call before the others have its result, so it stops later.
void stop_when_there_are(const std::vector<Path>& files) {
  for (const Path& file : files)
    while (!path_exists(file)) std::this_thread::sleep_for(std::chrono::milliseconds(1));
  ::raise(SIGSTOP);
}

// As under mpirun, which wakes a rank before it ends it: a rank that still lives must not take rank 0's end for a
// death.
TEST(Process, OfRankZeroThatWakesAndFindsAnotherEndedEndsTheRestWithoutAnotherError) {
  const test::ScratchFolder scratch;
  const End end = end_of(
      3,
      [&](Group& group) {
        const auto rank_0 =
            static_cast<pid_t>(std::stoll(group.control().broadcast("rank 0", std::to_string(::getpid()))));
        write_file_atomic(scratch / std::to_string(group.rank()), "");
        if (group.rank() == 0) stop_when_there_are({scratch / "1", scratch / "2"});
        if (group.rank() != 2) sleep_long();
        while (!is_stopped(rank_0)) std::this_thread::sleep_for(std::chrono::milliseconds(1));
        if (::fork() == 0) {  // has the connections of rank 2 until it ends
          std::this_thread::sleep_for(std::chrono::duration<double>(1.5 * kTimeout_s));
          ::kill(rank_0, SIGCONT);
        }
        ::_exit(0);
      },
      [](Membership& me) { me.supervised = false; }, kTimeout_s);
  EXPECT_EQ(end.code, 4);
  EXPECT_THAT(end.said, testing::ContainsRegex("error: rank 0 .* was stopped for .*, and rank 2 .* ended meanwhile"));
  EXPECT_THAT(end.said, Not(HasSubstr("has died")));
  EXPECT_EQ(times(end.said, "error:"), 1) << end.said;
}

// The others give up at the same moment. The launcher ends them after the first.
TEST(Process, OfRankZeroThatHangsBeforeTheMeetingIsOneError) {
  testing::internal::CaptureStderr();
  const launch::LocalEnd end = launch::run_local_ranks(4, [](const launch::LaunchedRank& launched) {
    if (launched.rank == 0) ::raise(SIGSTOP);
    try {
      const ProcessControl control({.rank = launched.rank,
                                    .size = launched.size,
                                    .address = launched.address,
                                    .key = launched.key,
                                    .join_timeout_s = 0.1});
    } catch (const Error& error) {
      std::fprintf(stderr, "%s\n", error.what());
      return static_cast<int>(error.code());
    }
    return 0;
  });
  const std::string said = testing::internal::GetCapturedStderr();
  EXPECT_EQ(end.code, 4);
  EXPECT_EQ(times(said, "error:"), 1) << said;
  EXPECT_THAT(said, HasSubstr("error: rank 1 "));
}

// The exit code of rank 0: 0: it said that it was stopped; 2: it said something else. nullopt: its time was over before
// this process could stop it, on a busy machine.
std::optional<int> rank_0_stopped_in_the_meeting() {
  const test::ScratchFolder scratch;
  const std::string address = "unix:" + (scratch / "meeting").string();
  const pid_t rank_0 = ::fork();
  if (rank_0 == 0) {
    try {
      const ProcessControl control({.rank = 0, .size = 2, .address = address, .key = "ours", .join_timeout_s = 1});
    } catch (const Error& error) {
      ::_exit(std::string(error.what()).find(" was stopped for ") != std::string::npos ? 0 : 2);
    }
    ::_exit(1);
  }
  std::string why;
  int status = 0;
  while (!Socket::connect(address, 0, 1, why).valid()) {
    if (::waitpid(rank_0, &status, WNOHANG) == rank_0) return std::nullopt;
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
  ::kill(rank_0, SIGSTOP);
  std::this_thread::sleep_for(std::chrono::milliseconds(4500));  // more than rank 0 may be late
  ::kill(rank_0, SIGCONT);
  return exit_code_of(rank_0);
}

// As under mpirun, too: the others have given rank 0 up, and it must not blame them. A machine may be too busy to stop
// rank 0 within its second, so there are several tries.
TEST(Process, OfRankZeroThatIsStoppedWhileTheRanksMeetSaysSo) {
  std::optional<int> code;
  for (int tries = 0; tries < 5 && code != 0; ++tries) code = rank_0_stopped_in_the_meeting();
  EXPECT_EQ(code, 0);
}

}  // namespace
}  // namespace hearth::comm
