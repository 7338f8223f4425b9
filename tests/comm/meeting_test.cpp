// SPDX-License-Identifier: Apache-2.0
// Processes of one start find each other, whatever else connects to rank 0 or listens in its place.
#include "comm/meeting.h"

#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>

#include <cstring>
#include <optional>
#include <vector>

#include "base/quantity.h"
#include "comm/notes/frames.h"
#include "process_end.h"
#include "support/environment.h"

namespace hearth::comm {
namespace {

using testing::HasSubstr;

const int64_t kTestProcess = ::getpid();

// Only rank 0 gives up, however late the others start.
void only_rank_0_gives_up(Membership& me, double after_s) {
  me.join_timeout_s = me.rank == 0 ? after_s : kLongTimeout_s;
}

TEST(Meeting, ThatDoesNotComeIsNamed) {
  const auto end_after = [](double timeout_s) {
    return end_of(
        3, [](Group&) {},
        [&](Membership& me) {
          only_rank_0_gives_up(me, timeout_s);
          if (me.rank == 2) std::_Exit(0);
        });
  };
  double timeout_s = 0.5;
  End end = end_after(timeout_s);
  // On a busy machine rank 1 may be late, too: it gets more time.
  while (timeout_s < 30 && end.said.find("rank 1") != std::string::npos) end = end_after(timeout_s *= 4);
  EXPECT_EQ(end.code, 4);
  EXPECT_THAT(end.said,
              testing::StartsWith(fmt::format("error: rank 2 did not start within {}", format_duration(timeout_s))));
}

// Its own run file may be an old copy, with less time.
TEST(Meeting, IsWaitedForAsLongAsRankZeroWaits) {
  const auto end_with = [](double own_s) {
    return end_of(
        3, [](Group&) {},
        [&](Membership& me) {
          constexpr double kAfterItsTime_s = 3;  // more than a rank waits for an answer when all should be there
          me.join_timeout_s = me.rank == 1 ? own_s : kLongTimeout_s;
          if (me.rank == 2) std::this_thread::sleep_for(std::chrono::duration<double>(own_s + kAfterItsTime_s));
        });
  };
  double own_s = 0.5;
  End end = end_with(own_s);
  // On a busy machine rank 1 may look for rank 0 before it listens: it gets more time.
  while (own_s < 30 && end.said.find("rank 1 did not find") != std::string::npos) end = end_with(own_s *= 4);
  EXPECT_EQ(end.code, 0) << end.said;
}

TEST(Meeting, NeedsAnOpenFileForEveryRank) {
  const End end = end_of(
      40, [](Group&) {},
      [](Membership& me) {
        if (me.rank != 0) std::_Exit(0);
        rlimit limit{.rlim_cur = 50, .rlim_max = 50};
        ASSERT_EQ(::setrlimit(RLIMIT_NOFILE, &limit), 0);
      });
  EXPECT_EQ(end.code, 2);
  EXPECT_THAT(end.said, HasSubstr("40 ranks need 64 open files in rank 0, and the system allows 50"));
}

TEST(Meeting, RefusesOrDoesNotHearProcessesOfAnotherStart) {
  const End size = end_of(
      2, [](Group&) {}, [](Membership& me) { me.size = me.rank == 1 ? 4 : 2; });
  EXPECT_EQ(size.code, 2);
  EXPECT_THAT(size.said, HasSubstr("was started as one of 4 ranks, rank 0 as one of 2"));
  const End key = end_of(
      2, [](Group&) {},
      [](Membership& me) {
        only_rank_0_gives_up(me, 0.5);
        if (me.rank == 1) me.key = "of another training";
      });
  EXPECT_THAT(key.said, HasSubstr("rank 1 did not start within"));
}

// The ports of this test's process, whichever of its children asks.
int64_t port_number(int64_t number) { return 20000 + (kTestProcess * 8 + number) % 10000; }
std::string local_port(int64_t number) { return fmt::format("tcp:localhost:{}", port_number(number)); }

TEST(Meeting, MeetsOthersByHostAndPort) {
  const auto by_port = [](Membership& me) { me.address = local_port(0); };
  EXPECT_EQ(end_of(
                3, [](Group& group) { sum(group); }, by_port)
                .code,
            0);
}

// Connects, and tries for as long as rank 0 may take to listen.
Socket knock(const std::string& address) {
  std::string why;
  for (int i = 0; i < 60000; ++i) {
    Socket socket = Socket::connect(address, 0, 1, why);
    if (socket.valid()) return socket;
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
  ADD_FAILURE() << why;
  return {};
}

// The form of comm/meeting.cpp: a magic number, a length and parts.
std::string frame(const std::string& payload) {
  const auto size = static_cast<uint32_t>(payload.size());
  return "HERT" + std::string(reinterpret_cast<const char*>(&size), sizeof size) + payload;
}

// Nothing, another protocol, half a message, a message without end, and ranks that do not know the secret.
std::vector<std::string> words_of_strangers() {
  const std::string hello = frame(parts_as_bytes("hello", "1", "3", "a program", "node9, process 7", "12"));
  return {"",
          "GET / HTTP/1.1\r\nHost: node1:29500\r\nAccept: */*\r\n\r\n",
          "HER",
          std::string("HERT\xff\xff\xff\xff", 8),
          frame("no parts"),
          frame(parts_as_bytes("proof", "0")),
          hello,
          hello + frame(parts_as_bytes("proof", std::string(64, '0'))),
          frame(parts_as_bytes("hello", "9223372036854775808", "3", "a program", "node9", "12")),
          frame(parts_as_bytes("hello", "2", "77", "of another number of ranks", "node9", "12")) +
              frame(parts_as_bytes("proof", "no proof"))};
}

// Scanners of ports and health checks of a cluster connect to every open port.
TEST(Meeting, MeetsOthersAlsoWhereStrangersConnect) {
  const auto with_strangers = [](Membership& me) {
    if (me.rank != 1) return;
    static std::vector<Socket> strangers;  // open until the process ends
    for (const std::string& says : words_of_strangers()) {
      Socket stranger = knock(me.address);
      stranger.send(says);
      strangers.push_back(std::move(stranger));
    }
  };
  const End end = end_of(
      3, [](Group& group) { sum(group); }, with_strangers);
  EXPECT_EQ(end.code, 0) << end.said;
}

// Comes as a rank of 3 that knows the start's key and no secret, and shows it. `challenge`: what rank 0 said.
Socket come_with_the_key(const Membership& me, int64_t rank, std::vector<std::string>& challenge) {
  const std::string number = "12", program = this_program(), process = "node9, process 7";
  Socket socket = knock(me.address);
  socket.send(frame(parts_as_bytes("hello", std::to_string(rank), "3", program, process, number)));
  std::string heard;
  uint32_t size = 0;
  while (heard.size() < 8 || heard.size() < 8 + size) {
    heard += *socket.receive();
    if (heard.size() >= 8) std::memcpy(&size, heard.data() + 4, sizeof size);
  }
  challenge = *find_parts(std::string_view(heard).substr(8));
  const std::string said = parts_as_bytes("rank", std::to_string(rank), "3", program, process, number, challenge.at(1));
  socket.send(frame(parts_as_bytes("proof", proof_of(parts_as_bytes(me.key, ""), said))));
  return socket;
}

// The same over a network, with a secret in a folder, which nothing is left of.
TEST(Meeting, WithASecretMeetsOthersWhereStrangersKnowTheKey) {
  const test::ScratchFolder scratch;
  const Path folder = scratch / "run" / "of" / "today";
  std::vector<Socket> strangers;
  const auto over_network = [&](Membership& me) {
    me.address = local_port(3);
    if (me.rank == 0) me.secret_folder = folder;
    if (me.rank != 1) return;
    for (const std::string& says : words_of_strangers()) {
      strangers.push_back(knock(me.address));
      strangers.back().send(says);
    }
    // This one knows the key, and not the secret.
    std::vector<std::string> challenge;
    strangers.push_back(come_with_the_key(me, 2, challenge));
    EXPECT_THAT(challenge.at(2), testing::StartsWith(folder.string()));
    EXPECT_FALSE(strangers.back().receive()) << "it is not let in";
    if (testing::Test::HasFailure()) std::_Exit(1);
  };
  const End end = end_of(
      3, [](Group& group) { sum(group); }, over_network);
  EXPECT_EQ(end.code, 0) << end.said;
  EXPECT_FALSE(path_exists(scratch / "run"));
}

// A process that poses as rank 0 gets no proof made with another file of the user.
TEST(Meeting, ReadsNoFileForAStrangerThatPosesAsRankZero) {
  const test::ScratchFolder scratch;
  const Path mine = scratch / "private", open_to_all = scratch / ".start-0123456789abcdef";
  write_file_atomic(mine, std::string(64, 'a'));
  write_file_atomic(open_to_all, std::string(64, 'a'));
  std::filesystem::permissions(mine, std::filesystem::perms::owner_read);
  const Path pipe = scratch / ".start-00000000000000ff";
  ASSERT_EQ(::mkfifo(pipe.c_str(), 0600), 0);
  for (const Path& file : {mine, open_to_all, pipe}) EXPECT_THROW(read_start_secret(file), Error);
  std::optional<StartSecret> secret(std::in_place, scratch / "run");
  EXPECT_EQ(read_start_secret(secret->file()).size(), 64U);
  EXPECT_EQ(std::filesystem::status(secret->file()).permissions(), std::filesystem::perms(0600));
  const Path file = secret->file();
  secret.reset();
  EXPECT_FALSE(path_exists(file));
}

TEST(Meeting, OfAnotherBuildIsNamedWithItsHost) {
  const End end = end_of(
      3, [](Group&) {},
      [](Membership& me) {
        if (me.rank == 2) me.program = "hearth-train 0.1.0 (Release, commit 0123)";
      });
  EXPECT_EQ(end.code, 2);
  EXPECT_THAT(end.said, testing::ContainsRegex("error: rank 2 \\(.+, process [0-9]+\\) is another build than rank 0: "
                                               "hearth-train 0.1.0 \\(Release, commit 0123\\), and rank 0 is "));
  EXPECT_EQ(times(end.said, "error:"), 1) << end.said;
}

TEST(Meeting, ThatEndsBeforeAllHaveStartedIsNamedAtOnce) {
  const End end = end_of(
      3, [](Group&) {},
      [](Membership& me) {
        me.join_timeout_s = kLongTimeout_s;
        if (me.rank == 2) sleep_long();  // it does not come
        if (me.rank == 0) return;
        std::vector<std::string> challenge;
        const Socket let_in = come_with_the_key(me, 1, challenge);
        std::_Exit(0);
      });
  EXPECT_EQ(end.code, 4) << end.said;
  EXPECT_THAT(end.said,
              testing::ContainsRegex("error: rank 1 \\(.+, process [0-9]+\\) ended before all ranks had started"));
}

// Whether a process does something. Rank 0 sleeps between its tries to listen.
bool is_busy(pid_t process) {
  const std::string stat = read_file(fmt::format("/proc/{}/stat", process));
  const char state = stat.at(stat.rfind(')') + 2);
  return state == 'R' || state == 'D';
}

// The others wait until another program has left the port.
TEST(Meeting, ThatFindsItsPortTakenTriesAgain) {
  const std::string address = local_port(1);
  std::string why;
  Socket taken = Socket::listen(address, why);
  ASSERT_TRUE(taken.valid()) << why;
  const pid_t rank_0 = ::fork();
  const auto meet = [&](int64_t rank) {
    try {
      ProcessControl control({.rank = rank, .size = 2, .address = address, .key = "ours"});
      control.barrier("the first");
      return 0;
    } catch (const Error& error) {
      std::fprintf(stderr, "%s\n", error.what());
      return static_cast<int>(error.code());
    }
  };
  if (rank_0 == 0) {
    taken.close();  // the parent's is open for a while
    ::_exit(meet(0));
  }
  const pid_t rank_1 = ::fork();
  if (rank_1 == 0) {
    taken.close();
    ::_exit(meet(1));
  }
  while (is_busy(rank_0)) std::this_thread::sleep_for(std::chrono::milliseconds(1));
  taken.close();
  for (const pid_t child : {rank_0, rank_1}) {
    int status = 0;
    ASSERT_EQ(::waitpid(child, &status, 0), child);
    EXPECT_EQ(status, 0);
  }
}

TEST(Meeting, ThatFindsItsPortTakenForLongSaysSo) {
  const std::string address = local_port(1);
  std::string why;
  const Socket taken = Socket::listen(address, why);
  const End end = end_of(
      2, [](Group&) {},
      [&](Membership& me) {
        me.address = address;
        only_rank_0_gives_up(me, 0.5);
      });
  EXPECT_EQ(end.code, 4) << "a supervisor tries again";
  EXPECT_THAT(end.said, HasSubstr(fmt::format("rank 0 cannot wait for the other ranks at {}", address)));
  EXPECT_THAT(end.said, HasSubstr("Address already in use"));
}

TEST(Meeting, TakesTheNextOfSeveralPorts) {
  const std::string first = local_port(1);
  std::string why;
  const Socket taken = Socket::listen(first, why);
  const End end = end_of(
      3, [](Group& group) { sum(group); },
      [&](Membership& me) { me.address = fmt::format("{},{}", first, port_number(2)); });
  EXPECT_EQ(end.code, 0) << end.said;
}

TEST(Meeting, OfAHostThatNobodyKnowsIsTriedAgainByItsLauncher) {
  const pid_t child = ::fork();
  if (child == 0) {
    try {
      const ProcessControl control(
          {.rank = 1, .size = 2, .address = "tcp:no-such-host.invalid:29500", .key = "ours", .join_timeout_s = 0.1});
    } catch (const Error& error) {
      const std::string said = error.what();
      ::_exit(said.find("the host no-such-host.invalid is not known") != std::string::npos
                  ? static_cast<int>(error.code())
                  : 1);
    }
    ::_exit(1);
  }
  int status = 0;
  ASSERT_EQ(::waitpid(child, &status, 0), child);
  EXPECT_EQ(WEXITSTATUS(status), 4);
}

// Both families of addresses, by name and by number.
TEST(Meeting, MeetsOthersByIPv4AndIPv6) {
  for (const char* host : {"127.0.0.1", "::1", "[::1]", "localhost"}) {
    const End end = end_of(
        3, [](Group& group) { sum(group); },
        [&](Membership& me) { me.address = fmt::format("tcp:{}:{}", host, port_number(4)); });
    EXPECT_EQ(end.code, 0) << host << ": " << end.said;
  }
}

// A program that takes connections and says nothing.
TEST(Meeting, ThatReachesAnotherProgramEndsInTime) {
  const std::string address = local_port(2);
  std::string why;
  const Socket stranger = Socket::listen(address, why);
  const pid_t child = ::fork();
  if (child == 0) {
    try {
      const ProcessControl control({.rank = 1, .size = 2, .address = address, .key = "ours", .join_timeout_s = 0.1});
    } catch (const Error& error) {
      ::_exit(std::string(error.what()).find("rank 1 got no answer from rank 0 at " + address) != std::string::npos
                  ? 0
                  : 2);
    }
    ::_exit(1);
  }
  EXPECT_EQ(exit_code_of(child), 0);
}

}  // namespace
}  // namespace hearth::comm
