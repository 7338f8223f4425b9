// SPDX-License-Identifier: Apache-2.0
// Ranks as processes: one that dies, fails or hangs ends all, and one message names it.
#include <vector>

#include "base/program.h"
#include "process_end.h"
#include "support/environment.h"
#include "trace/flight_recorder.h"

namespace hearth::comm {
namespace {

using testing::HasSubstr;
using testing::Not;
using testing::StartsWith;

TEST(Process, ThatIsKilledIsNamedWithItsStepAndEndsAll) {
  for (const int64_t victim : {1, 3}) {
    const End end = end_of(4, [&](Group& group) {
      group.control().set_step(7);
      sum(group);
      if (group.rank() == victim) ::raise(SIGKILL);
      sum(group);
    });
    EXPECT_EQ(end.code, 4);
    EXPECT_THAT(end.said, testing::ContainsRegex(
                              fmt::format("^error: rank {} \\(.*, process [0-9]+\\) has died in step 7", victim)));
    EXPECT_EQ(times(end.said, "error:"), 1) << end.said;
  }
}

TEST(Process, OfRankZeroThatIsKilledEndsAll) {
  const End end = end_of(3, [](Group& group) {
    sum(group);
    if (group.rank() == 0) ::raise(SIGKILL);
    sum(group);
  });
  EXPECT_EQ(end.code, 4);
  EXPECT_THAT(end.said, testing::ContainsRegex("^error: rank 0 \\(process [0-9]+\\) was killed by signal 9"));
  EXPECT_EQ(times(end.said, "error:"), 1) << end.said;
}

TEST(Process, ThatIsKilledWhileOthersComputeEndsThem) {
  const End end = end_of(3, [](Group& group) {
    sum(group);
    if (group.rank() == 2) ::raise(SIGKILL);
    sleep_long();
  });
  EXPECT_EQ(end.code, 4);
  EXPECT_THAT(end.said, testing::ContainsRegex("^error: rank 2 \\(.*, process [0-9]+\\) has died"));
}

TEST(Process, ThatFailsIsQuotedOnceWithItsRank) {
  const End end = end_of(3, [](Group& group) {
    sum(group);
    if (group.rank() == 1) throw damaged("a file is damaged", "why", "fix");
    sum(group);
  });
  EXPECT_EQ(end.code, 3);
  EXPECT_THAT(end.said, StartsWith("error: a file is damaged\n  why: why\n  fix: fix\n  rank: rank 1 ("));
  EXPECT_EQ(times(end.said, "error:"), 1) << end.said;
}

// Rank 0 waits a moment for its own error. The others fail no earlier than it begins to.
TEST(Process, ErrorsOfAllAreThatOfRankZero) {
  const test::ScratchFolder scratch;
  const End end = end_of(3, [&](Group& group) {
    if (group.rank() == 0) write_file_atomic(scratch / "begins", "");
    while (!path_exists(scratch / "begins")) std::this_thread::sleep_for(std::chrono::milliseconds(1));
    throw user_error(fmt::format("rank {} fails", group.rank()));
  });
  EXPECT_EQ(end.code, 2);
  EXPECT_EQ(end.said, "error: rank 0 fails\n");
}

// Stopped in a call of tensors: the others know its last call, rank 0 its host, and that it does not answer.
TEST(Process, ThatHangsIsNamedWithHostStepAndLastCallAndKilled) {
  const End end = end_of_hanging(3, [](Group& group) {
    group.control().set_step(7);
    sum(group, 5);
    if (group.rank() == 1) ::raise(SIGSTOP);
    sum(group, 6);
  });
  EXPECT_EQ(end.code, 4);
  EXPECT_GT(end.taken_s, kTimeout_s);
  EXPECT_THAT(end.said,
              HasSubstr("all_reduce of 6 x Float; not arrived: rank 1 (its last call: all_reduce of 5 x Float)"));
  EXPECT_THAT(end.said,
              testing::ContainsRegex("\n  hangs: rank 1 \\(.+, process [0-9]+\\) does not answer: .*, in step 7"));
  EXPECT_EQ(times(end.said, "error:"), 1) << end.said;
  EXPECT_EQ(times(end.said, "hangs:"), 1) << end.said;
}

TEST(Process, ThatHangsBeforeAMessageIsNamedToo) {
  for (const int64_t hanging : {0, 2}) {
    const End end = end_of_hanging(3, [&](Group& group) {
      group.control().barrier("the first");
      if (group.rank() == hanging) sleep_long();
      group.control().barrier("the second");
    });
    EXPECT_EQ(end.code, 4);
    EXPECT_THAT(end.said, testing::ContainsRegex(fmt::format("ranks waited 1.0 s for rank {} ", hanging)));
    EXPECT_THAT(end.said, testing::ContainsRegex(fmt::format(
                              "\n  hangs: rank {} \\(.+, process [0-9]+\\) is in no call for .+; its last one was the "
                              "first, before the first step",
                              hanging)));
    EXPECT_THAT(end.said, HasSubstr("raise comm.init_timeout_seconds"));
    if (hanging == 2) {
      EXPECT_THAT(end.said, HasSubstr("after its last call, the first"));
    }
  }
}

// Nobody else can name it: in a call of tensors, and in a message.
TEST(Process, OfRankZeroThatHangsIsNamedByAnother) {
  const std::function<void(Group&)> calls[] = {[](Group& group) { sum(group, 6); },
                                               [](Group& group) { group.control().barrier("a vote"); }};
  for (const auto& call : calls) {
    const End end = end_of_hanging(3, [&](Group& group) {
      group.control().set_step(9);
      sum(group, 5);
      if (group.rank() == 0) ::raise(SIGSTOP);
      call(group);
    });
    EXPECT_EQ(end.code, 4);
    EXPECT_THAT(end.said, testing::ContainsRegex("error: rank [12] waited .* rank 0 "));
    EXPECT_THAT(end.said,
                testing::ContainsRegex("\n  hangs: rank 0 \\(.+, process [0-9]+\\) does not answer, in step 9"));
    EXPECT_EQ(times(end.said, "error:"), 1) << end.said;
  }
}

// What it did last stands in its record of calls. It is stopped after a call, or while it waits in one.
TEST(Process, OfRankZeroThatHangsIsNamedWithItsLastCall) {
  for (const bool waits : {false, true}) {
    const test::ScratchFolder scratch;
    const auto rank_0_waits = [&] {
      const std::vector<trace::FlightCall> calls = trace::read_flight(trace::flight_file(scratch, 0)).calls;
      return !calls.empty() && calls.back().peer == trace::kAwaitedMessage &&
             std::string(calls.back().name) == "a vote" && calls.back().under_way();
    };
    const End end = end_of_hanging(3, [&](Group& group) {
      comm::Control& control = group.control();
      const auto process = static_cast<pid_t>(std::stoll(control.broadcast("rank 0", std::to_string(::getpid()))));
      trace::start_flight(scratch, group.rank(), group.size());
      sum(group, 5);
      if (!waits && group.rank() == 0) ::raise(SIGSTOP);
      while (waits && group.rank() == 2 && !rank_0_waits()) std::this_thread::sleep_for(std::chrono::milliseconds(1));
      if (waits && group.rank() == 2) ::kill(process, SIGSTOP);
      control.barrier("a vote");
    });
    EXPECT_EQ(end.code, 4);
    const std::string call = waits ? "a vote, which has not ended" : "all_reduce, which has ended";
    EXPECT_THAT(end.said,
                testing::ContainsRegex("\n  hangs: rank 0 \\(.+\\) does not answer, .*; its last call was " + call));
    EXPECT_EQ(times(end.said, "error:"), 1) << end.said;
  }
}

// Its work is done, and it only has to end: a launcher would wait for it for ever. It stops when the others have left
// their last call too, because rank 0 leaves a call before the others have its result.
TEST(Process, ThatHangsAtItsEndIsNamed) {
  for (const int64_t hanging : {0, 2}) {
    const test::ScratchFolder scratch;
    testing::internal::CaptureStderr();
    const launch::LocalEnd end = launch::run_local_ranks(3, [&](const launch::LaunchedRank& launched) {
      ProcessControl control(
          {.rank = launched.rank, .size = launched.size, .address = launched.address, .key = launched.key});
      control.barrier("the work");
      control.set_timeout(kTimeout_s);
      write_file_atomic(scratch / std::to_string(launched.rank), "");
      if (launched.rank != hanging) return 0;
      for (const int64_t other : {0, 1, 2})
        while (!path_exists(scratch / std::to_string(other))) std::this_thread::sleep_for(std::chrono::milliseconds(1));
      ::raise(SIGSTOP);
      return 0;
    });
    const std::string said = testing::internal::GetCapturedStderr();
    EXPECT_EQ(end.code, 4);
    EXPECT_THAT(said, testing::ContainsRegex(hanging == 0 ? "error: rank [12] waited .* for rank 0 to end"
                                                          : "error: rank 0 waited .* for the other ranks to end"));
    EXPECT_THAT(said, testing::ContainsRegex(
                          fmt::format("\n  hangs: rank {} \\(.+, process [0-9]+\\) does not answer", hanging)));
    EXPECT_EQ(times(said, "error:"), 1) << said;
  }
}

// As MPI_Init where a rank does not come: each process is in a library, and none of ours waits.
TEST(Process, ThatHangsWhileAllAreInALibraryIsNamed) {
  const End end = end_of_hanging(3, [](Group& group) {
    auto& control = static_cast<ProcessControl&>(group.control());
    group.control().barrier("the first");
    if (group.rank() == 2) ::raise(SIGSTOP);
    const ProcessControl::Watched watched(control, "MPI_Init");
    sleep_long();
  });
  EXPECT_EQ(end.code, 4);
  EXPECT_THAT(end.said, testing::ContainsRegex("error: rank [01] waited .* in MPI_Init, before the first step"));
  EXPECT_THAT(end.said, testing::ContainsRegex("hangs: rank 2 \\(.+\\) does not answer: .*last message was the first"));
  EXPECT_EQ(times(end.said, "error:"), 1) << end.said;
}

// A large checkpoint takes longer than the time-out to load: on one rank, or on rank 0. The time-out is long next to
// the time between two signs of life, a quarter of it, so that a busy machine may delay them.
TEST(Process, ThatGivesSignsOfLifeIsWaitedFor) {
  constexpr double kWait_s = 3;
  for (const bool in_message : {true, false})
    for (const int64_t busy : {0, 2}) {
      // On a busy machine a rank may get no time for kWait_s, so there are several tries.
      End end;
      end.code = 1;
      for (int tries = 0; tries < 3 && end.code != 0; ++tries)
        end = end_of(
            3,
            [&](Group& group) {
              group.control().barrier("the first");
              const auto until = std::chrono::steady_clock::now() + std::chrono::duration<double>(1.5 * kWait_s);
              while (group.rank() == busy && std::chrono::steady_clock::now() < until) {
                note_progress();
                std::this_thread::sleep_for(std::chrono::milliseconds(20));
              }
              if (!in_message) sum(group);
              group.control().barrier("the second");
            },
            [](Membership&) {}, kWait_s);
      EXPECT_EQ(end.code, 0) << end.said;
    }
}

// Until set_timeout() says how long a step waits, tensors have the time of the start, as messages have.
TEST(Process, ThatIsLateBeforeTheFirstStepIsWaitedForInTensorsToo) {
  const launch::LocalEnd end = launch::run_local_ranks(2, [](const launch::LaunchedRank& launched) {
    at::set_num_threads(1);
    const Membership me{.rank = launched.rank, .size = launched.size, .address = launched.address, .key = launched.key};
    return run_as_rank(me, [](Control& control, const MakeGroup& make_group) {
      control.set_timeout(kLongTimeout_s);
      const auto group = make_group(config::Comm{.train_timeout_seconds = 0.05}, {});
      control.barrier("the start");
      if (control.rank() == 1) std::this_thread::sleep_for(std::chrono::milliseconds(500));
      sum(*group);
      return 0;
    });
  });
  EXPECT_EQ(end.code, 0);
}

TEST(Process, CallsThatDifferAreOurBug) {
  const End tensors = end_of(2, [](Group& group) { sum(group, 4 + group.rank()); });
  EXPECT_EQ(tensors.code, 5);
  EXPECT_THAT(tensors.said, HasSubstr("rank 0 is in all_reduce of 4 x Float, rank 1 in all_reduce of 5 x Float"));
  const End messages =
      end_of(2, [](Group& group) { group.control().barrier(group.rank() == 0 ? "a save" : "a vote"); });
  EXPECT_EQ(messages.code, 5);
  EXPECT_THAT(messages.said, HasSubstr("ranks disagree: rank 0 is in a save, rank 1 in a vote"));
}

}  // namespace
}  // namespace hearth::comm
