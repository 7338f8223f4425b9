// SPDX-License-Identifier: Apache-2.0
// Notes through parts of ranks, carried in any order, against sums and lists computed directly.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <deque>
#include <memory>
#include <random>
#include <set>
#include <vector>

#include "base/error.h"
#include "comm/buffers.h"
#include "comm/notes/frames.h"
#include "comm/notes/note_exchange.h"
#include "comm/notes/pair_sums.h"

namespace hearth::comm {
namespace {

using testing::HasSubstr;

// Ranks in this thread. A message waits until deliver() picks it, by chance; those of one connection stay in order.
class Carried {
 public:
  Carried(int64_t size, int64_t part, uint64_t star_calls, uint64_t seed) : random_(seed) {
    for (int64_t r = 0; r < size; ++r) ranks_.push_back(std::make_unique<NoteExchange>(r, size, part, star_calls));
  }

  NoteExchange& rank(int64_t r) { return *ranks_[static_cast<size_t>(r)]; }
  void post(int64_t r, uint64_t number, Note note) { send(r, rank(r).post(number, std::move(note), 0)); }
  bool deliver() {
    if (waiting_.empty()) return false;
    auto at = waiting_.begin();
    std::advance(at, static_cast<std::ptrdiff_t>(random_() % waiting_.size()));
    const auto [from, to] = at->first;
    const NoteExchange::Outgoing message = std::move(at->second.front());
    at->second.pop_front();
    if (at->second.empty()) waiting_.erase(at);
    ++received_[to];
    send(to, message.is_result ? rank(to).take_result(message.number, message.bytes)
                               : rank(to).take_note(message.number, from, message.bytes, 0));
    return true;
  }
  // The most messages that one rank received, and those of rank 0.
  int64_t most_received() const {
    int64_t most = 0;
    for (const auto& [rank, count] : received_) most = std::max(most, count);
    return most;
  }
  std::mt19937_64& random() { return random_; }

 private:
  void send(int64_t from, const std::optional<NoteExchange::Outgoing>& out) {
    if (!out) return;
    for (const int64_t to : *out->to) waiting_[{from, to}].push_back(*out);
  }

  std::mt19937_64 random_;
  std::vector<std::unique_ptr<NoteExchange>> ranks_;
  std::map<std::pair<int64_t, int64_t>, std::deque<NoteExchange::Outgoing>> waiting_;
  std::map<int64_t, int64_t> received_;
};

TEST(NoteExchange, GivesAllRanksTheSameSumsAndListsInAnyOrderOfMessages) {
  for (const int64_t size : {1, 2, 3, 7, 16, 33}) {
    for (const int64_t part : {2, 4, 5, 64}) {
      for (uint64_t seed = 0; seed < 5; ++seed) {
        Carried ranks(size, part, /*star_calls=*/1, seed);
        std::vector<double> values;
        std::string list;
        std::vector<std::pair<int64_t, uint64_t>> posts;  // a rank and a call
        for (int64_t r = 0; r < size; ++r) {
          values.push_back(std::uniform_real_distribution<double>(-1e6, 1e6)(ranks.random()));
          list += fmt::format("<{}>", r);
          for (const uint64_t call : {1, 2, 3}) posts.emplace_back(r, call);
        }
        std::shuffle(posts.begin(), posts.end(), ranks.random());
        std::stable_sort(posts.begin(), posts.end(), [](const auto& a, const auto& b) { return a.second < b.second; });
        for (const auto& [r, call] : posts) {
          const auto at = static_cast<size_t>(r);
          if (call == 3) {
            ranks.post(r, call, {"a sum", PairSums(r, {values[at], 1}).bytes(), merge_sums});
          } else {
            ranks.post(r, call,
                       {"a list", fmt::format("<{}>", r), merge_lists, call == 1 ? Answers::kAll : Answers::kRank0});
          }
          if (seed % 2 == 0) ranks.deliver();
        }
        while (ranks.deliver()) {
        }
        for (int64_t r = 0; r < size; ++r) {
          EXPECT_EQ(ranks.rank(r).take_result_of(1), list);
          EXPECT_EQ(ranks.rank(r).take_result_of(2), r == 0 ? list : "");
          EXPECT_THAT(PairSums::from_bytes(ranks.rank(r).take_result_of(3)).total(size),
                      testing::ElementsAre(sum_in_pairs(values), static_cast<double>(size)));
          EXPECT_FALSE(ranks.rank(r).oldest());
        }
      }
    }
  }
}

TEST(NoteExchange, NamesWhoIsMissingAtEachRank) {
  Carried ranks(9, 3, 0, 0);
  for (const int64_t r : {0, 1, 3, 4, 6, 7, 8}) ranks.post(r, 1, {"a vote", "", merge_first});
  while (ranks.deliver()) {
  }
  ASSERT_TRUE(ranks.rank(0).oldest());
  EXPECT_THAT(ranks.rank(0).oldest()->missing_ranks, testing::ElementsAre(2, 3));
  EXPECT_THAT(ranks.rank(3).oldest()->missing_ranks, testing::ElementsAre(5));
  EXPECT_FALSE(ranks.rank(6).oldest());
  EXPECT_EQ(ranks.rank(3).last_calls().at(4).operation, "a vote");
  EXPECT_FALSE(ranks.rank(3).last_calls().contains(5));
}

TEST(NoteExchange, RefusesDifferentOperationsWhereTheyMeet) {
  Carried ranks(6, 3, 0, 0);
  ranks.post(4, 1, {"a save", "", merge_first});
  ranks.post(5, 1, {"a vote", "", merge_first});
  while (ranks.deliver()) {
  }
  try {
    ranks.post(3, 1, {"a vote", "", merge_first});
    FAIL() << "no error";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ExitCode::kBug);
    EXPECT_THAT(error.what(), HasSubstr("ranks disagree: rank 3 is in a vote, rank 4 in a save"));
  }
}

// Each rank is below one collector, and nobody has more than about two roots of the number of ranks to hear.
TEST(NoteTree, OfThousandsOfRanksHasFewMessagesAtEach) {
  for (const int64_t size : {65, 100, 512, 5120, 16384}) {
    const int64_t part = NoteTree::usual_part(size);
    std::set<int64_t> below;
    for (int64_t r = 0; r < size; ++r) {
      const NoteTree tree{r, size, part};
      for (const int64_t child : tree.children()) {
        EXPECT_TRUE(below.insert(child).second) << child << " twice";
        EXPECT_EQ((NoteTree{child, size, part}.parent()), r);
      }
      EXPECT_LT(std::ssize(tree.children()), static_cast<int64_t>(3 * std::sqrt(size))) << size;
    }
    EXPECT_EQ(std::ssize(below), size - 1);
  }
  EXPECT_EQ(NoteTree::usual_part(64), 64);
}

TEST(PairSums, RefuseMembersThatHaveOtherNumbersOfValuesOrAreMissing) {
  PairSums sums(0, {1, 2});
  EXPECT_THROW(sums.append(PairSums(1, {1})), Error);
  PairSums some(0, {1});
  some.append(PairSums(2, {1}));
  EXPECT_THROW(some.total(3), Error);
  EXPECT_THROW(PairSums(0, {1}).total(2), Error);
  EXPECT_THROW(parts_of("123"), Error);
}

}  // namespace
}  // namespace hearth::comm
