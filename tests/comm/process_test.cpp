// Ranks as processes: one that dies, fails or hangs, or was started wrongly, ends all, and one message names it.
#include <ATen/Parallel.h>
#include <ATen/ops/empty.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <chrono>
#include <csignal>
#include <thread>
#include <vector>

#include "base/error.h"
#include "comm/buffers.h"
#include "comm/join.h"
#include "launch/local_ranks.h"

namespace hearth::comm {
namespace {

using testing::HasSubstr;
using testing::Not;
using testing::StartsWith;

constexpr double kTimeout_s = 1;

struct End {
  int code = 0;
  double taken_s = 0;
  std::string said;  // on stderr
};

// Runs `body` as each of the processes. `membership`: a change of a rank's.
End end_of(
    int64_t ranks, const std::function<void(Group&)>& body,
    const std::function<void(Membership&)>& membership = [](Membership&) {}) {
  End end;
  testing::internal::CaptureStderr();
  const auto begin = std::chrono::steady_clock::now();
  const launch::LocalEnd local = launch::run_local_ranks(ranks, [&](const launch::Place& place) {
    at::set_num_threads(1);  // OpenMP's threads do not survive a fork
    Membership me{.rank = place.rank, .size = place.size, .address = place.address, .key = place.key};
    me.supervised = place.supervised;
    membership(me);
    try {
      return run_as_rank(me, [&](Control&, const MakeGroup& make_group) {
        const auto group = make_group(config::Comm{.train_timeout_seconds = kTimeout_s}, {});
        group->control().set_timeout(kTimeout_s);
        body(*group);
        return 0;
      });
    } catch (const Error& error) {
      std::fprintf(stderr, "%s\n", error.what());
      return static_cast<int>(error.code());
    }
  });
  end.code = local.code;
  end.taken_s = std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
  end.said = testing::internal::GetCapturedStderr();
  return end;
}

int times(const std::string& text, const std::string& part) {
  int count = 0;
  for (size_t at = text.find(part); at != std::string::npos; at = text.find(part, at + 1)) ++count;
  return count;
}

void sum(Group& group, int64_t numel = 12) { group.all_reduce(at::empty({numel})); }
void sleep_long() { std::this_thread::sleep_for(std::chrono::seconds(60)); }

TEST(Process, ThatIsKilledIsNamedWithItsStepAndEndsAll) {
  for (const int64_t victim : {1, 3}) {
    const End end = end_of(4, [&](Group& group) {
      group.control().set_step(7);
      sum(group);
      if (group.rank() == victim) ::raise(SIGKILL);
      sum(group);
    });
    EXPECT_EQ(end.code, 4);
    EXPECT_LT(end.taken_s, kTimeout_s) << "not by the timeout";
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
  EXPECT_LT(end.taken_s, kTimeout_s);
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
  EXPECT_LT(end.taken_s, kTimeout_s);
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

TEST(Process, ErrorsOfAllAreThatOfRankZero) {
  const End end = end_of(3, [](Group& group) { throw user_error(fmt::format("rank {} fails", group.rank())); });
  EXPECT_EQ(end.code, 2);
  EXPECT_EQ(end.said, "error: rank 0 fails\n");
}

TEST(Process, ThatHangsIsNamedWithItsLastCallAndKilled) {
  const End end = end_of(3, [](Group& group) {
    sum(group, 5);
    if (group.rank() == 1) ::raise(SIGSTOP);
    sum(group, 6);
  });
  EXPECT_EQ(end.code, 4);
  EXPECT_GT(end.taken_s, kTimeout_s);
  EXPECT_LT(end.taken_s, kTimeout_s + 2);
  EXPECT_THAT(end.said,
              HasSubstr("all_reduce of 6 x Float; not arrived: rank 1 (its last call: all_reduce of 5 x Float)"));
  EXPECT_EQ(times(end.said, "error:"), 1) << end.said;
}

TEST(Process, ThatHangsBeforeAMessageIsNamedToo) {
  for (const int64_t hanging : {0, 2}) {
    const End end = end_of(3, [&](Group& group) {
      group.control().barrier("the first");
      if (group.rank() == hanging) sleep_long();
      group.control().barrier("the second");
    });
    EXPECT_EQ(end.code, 4);
    EXPECT_LT(end.taken_s, kTimeout_s + 2);
    EXPECT_THAT(end.said, testing::ContainsRegex(fmt::format("ranks waited 1.0 s for rank {} ", hanging)));
    if (hanging == 2) {
      EXPECT_THAT(end.said, HasSubstr("after its last call, the first"));
    }
  }
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

// Ten ranks in parts of three: rank 0 hears of ranks 1, 2, and of the collectors 3, 6 and 9.
void in_parts(Membership& me) { me.part = 3; }

TEST(Parts, OfRanksHaveTheSumsAndListsOfAll) {
  const auto body = [](Group& group) {
    Control& control = group.control();
    for (int i = 0; i < 20; ++i) {
      const double mine[] = {0.1 * static_cast<double>(group.rank()), 1};
      std::vector<double> tenths;
      for (int r = 0; r < 10; ++r) tenths.push_back(0.1 * r);
      HEARTH_CHECK((control.sum("a sum", mine) == std::vector<double>{sum_in_pairs(tenths), 10}));
      const std::vector<std::string> all = control.all_gather("a list", std::to_string(group.rank()));
      for (size_t r = 0; r < 10; ++r) HEARTH_CHECK(all.size() == 10 && all[r] == std::to_string(r));
      HEARTH_CHECK(control.gather("a gather", "x").size() == (group.rank() == 0 ? 10U : 0U));
      HEARTH_CHECK(control.broadcast("a word", group.rank() == 0 ? "word" : "") == "word");
      HEARTH_CHECK(control.any("a vote", group.rank() == i % 10) && !control.any("no vote", false));
    }
    sum(group);
  };
  EXPECT_EQ(end_of(10, body, in_parts).code, 0);
  const auto by_port = [](Membership& me) {
    in_parts(me);
    me.address = fmt::format("tcp:localhost:{}", 20000 + ::getppid() % 20000);
  };
  EXPECT_EQ(end_of(10, body, by_port).code, 0);
}

TEST(Parts, NameAKilledRankOfAnyPlace) {
  for (const int64_t victim : {1, 3, 4, 9}) {
    const End end = end_of(
        10,
        [&](Group& group) {
          group.control().barrier("the first");
          if (group.rank() == victim) ::raise(SIGKILL);
          group.control().barrier("the second");
        },
        in_parts);
    EXPECT_EQ(end.code, 4);
    EXPECT_THAT(end.said, testing::ContainsRegex(fmt::format("rank {} \\(.*\\) has died", victim)));
    EXPECT_EQ(times(end.said, "error:"), 1) << end.said;
  }
}

TEST(Parts, NameARankThatHangsAnywhere) {
  for (const bool stopped : {false, true}) {
    for (const int64_t hanging : {2, 3, 5, 9}) {
      const End end = end_of(
          10,
          [&](Group& group) {
            group.control().barrier("the first");
            if (group.rank() == hanging && stopped) ::raise(SIGSTOP);
            if (group.rank() == hanging) sleep_long();
            group.control().barrier("the second");
          },
          in_parts);
      EXPECT_EQ(end.code, 4);
      EXPECT_THAT(end.said,
                  testing::ContainsRegex(fmt::format(
                      "ranks waited 1.0 s for rank {} \\([^)]*\\) after its last call, the first\n", hanging)));
      EXPECT_EQ(times(end.said, "error:"), 1) << end.said;
    }
  }
}

TEST(Parts, FindCallsThatDiffer) {
  const End end = end_of(
      10, [](Group& group) { group.control().barrier(group.rank() == 5 ? "a save" : "a vote"); }, in_parts);
  EXPECT_EQ(end.code, 5);
  EXPECT_THAT(end.said, HasSubstr("ranks disagree: rank 3 is in a vote, rank 5 in a save"));
}

TEST(Process, ThatDoesNotComeIsNamed) {
  const End end = end_of(
      3, [](Group&) {},
      [](Membership& me) {
        me.join_timeout_s = 0.5;
        if (me.rank == 2) std::_Exit(0);
      });
  EXPECT_EQ(end.code, 4);
  EXPECT_THAT(end.said, HasSubstr("rank 2 did not start within 0.5 s"));
}

TEST(Process, OfAnotherStartIsRefusedOrNotHeard) {
  const End size = end_of(
      2, [](Group&) {}, [](Membership& me) { me.size = me.rank == 1 ? 4 : 2; });
  EXPECT_EQ(size.code, 2);
  EXPECT_THAT(size.said, HasSubstr("was started as one of 4 ranks, rank 0 as one of 2"));
  const End key = end_of(
      2, [](Group&) {},
      [](Membership& me) {
        me.join_timeout_s = 0.5;
        if (me.rank == 1) me.key = "of another training";
      });
  EXPECT_THAT(key.said, HasSubstr("rank 1 did not start within"));
}

TEST(Process, MeetsOthersByHostAndPort) {
  const auto by_port = [](Membership& me) {
    me.address = fmt::format("tcp:localhost:{}", 20000 + ::getppid() % 20000);
  };
  EXPECT_EQ(end_of(
                3, [](Group& group) { sum(group); }, by_port)
                .code,
            0);
}

// Scanners of ports and health checks of a cluster connect to every open port.
TEST(Process, MeetsOthersAlsoWhereStrangersConnect) {
  const auto with_strangers = [](Membership& me) {
    me.join_timeout_s = 10;
    if (me.rank != 1) return;
    static std::vector<Socket> strangers;  // open until the process ends
    for (const char* says : {"", "GET / HTTP/1.1\r\nHost: node1:29500\r\nAccept: */*\r\n\r\n"}) {
      Socket stranger;
      for (int i = 0; i < 5000 && !(stranger = Socket::connect(me.address)).valid(); ++i)
        std::this_thread::sleep_for(std::chrono::milliseconds(1));
      stranger.send(says);
      strangers.push_back(std::move(stranger));
    }
  };
  const End end = end_of(
      3, [](Group& group) { sum(group); }, with_strangers);
  EXPECT_EQ(end.code, 0) << end.said;
  EXPECT_LT(end.taken_s, 9);
}

TEST(Process, ThatFindsItsPortTakenSaysSo) {
  const std::string address = fmt::format("tcp:localhost:{}", 20000 + (::getpid() + 1) % 20000);
  const Socket taken = Socket::listen(address);
  const End end = end_of(
      2, [](Group&) {}, [&](Membership& me) { me.address = address, me.join_timeout_s = 0.5; });
  EXPECT_EQ(end.code, 2);
  EXPECT_THAT(end.said, HasSubstr(fmt::format("rank 0 cannot wait for the other ranks at {}", address)));
  EXPECT_THAT(end.said, HasSubstr("Address already in use"));
}

// A program that takes connections and says nothing.
TEST(Process, ThatReachesAnotherProgramEndsInTime) {
  const std::string address = fmt::format("tcp:localhost:{}", 20000 + (::getpid() + 2) % 20000);
  const Socket stranger = Socket::listen(address);
  const pid_t child = ::fork();
  if (child == 0) {
    try {
      const ProcessControl control({.rank = 1, .size = 2, .address = address, .key = "ours", .join_timeout_s = 0.1});
    } catch (const Error& error) {
      ::_exit(std::string(error.what()).find("rank 1 got no answer at " + address) != std::string::npos ? 0 : 2);
    }
    ::_exit(1);
  }
  int status = 0;
  ASSERT_EQ(::waitpid(child, &status, 0), child);
  EXPECT_TRUE(WIFEXITED(status));
  EXPECT_EQ(WEXITSTATUS(status), 0);
}

}  // namespace
}  // namespace hearth::comm
