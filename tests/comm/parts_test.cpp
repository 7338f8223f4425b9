// SPDX-License-Identifier: Apache-2.0
// Many ranks as processes: their messages go through the first ranks of parts (comm/notes/note_tree.h).
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <csignal>
#include <vector>

#include "base/error.h"
#include "comm/buffers.h"
#include "process_end.h"

namespace hearth::comm {
namespace {

using testing::HasSubstr;

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
        in_parts, kLongTimeout_s);
    EXPECT_EQ(end.code, 4);
    EXPECT_THAT(end.said, testing::ContainsRegex(fmt::format("rank {} \\(.*\\) has died", victim)));
    EXPECT_EQ(times(end.said, "error:"), 1) << end.said;
  }
}

TEST(Parts, NameARankThatHangsAnywhere) {
  struct Case {
    int64_t rank;  // one of rank 0's own part, one that collects, one of its part, and a part of one
    bool stopped;
  };
  for (const Case hanging : {Case{2, false}, Case{3, true}, Case{5, false}, Case{5, true}, Case{9, true}}) {
    const End end = end_of(
        10,
        [&](Group& group) {
          group.control().barrier("the first");
          if (group.rank() == hanging.rank && hanging.stopped) ::raise(SIGSTOP);
          if (group.rank() == hanging.rank) sleep_long();
          group.control().barrier("the second");
        },
        in_parts, kTimeout_s);
    EXPECT_EQ(end.code, 4);
    const bool alone = hanging.rank == 2 || hanging.rank == 9;
    EXPECT_THAT(end.said, HasSubstr(alone ? fmt::format("ranks waited 1.0 s for rank {} (", hanging.rank)
                                          : "ranks waited 1.0 s for one of the ranks 3 to 5"));
    EXPECT_THAT(end.said, testing::ContainsRegex(fmt::format("hangs: rank {} \\(", hanging.rank)));
    EXPECT_EQ(times(end.said, "error:"), 1) << end.said;
  }
}

TEST(Parts, FindCallsThatDiffer) {
  const End end = end_of(
      10, [](Group& group) { group.control().barrier(group.rank() == 5 ? "a save" : "a vote"); }, in_parts);
  EXPECT_EQ(end.code, 5);
  EXPECT_THAT(end.said, HasSubstr("ranks disagree: rank 3 is in a vote, rank 5 in a save"));
}

}  // namespace
}  // namespace hearth::comm
