// SPDX-License-Identifier: Apache-2.0
// Hangs as ranks leave them, and who is named.
#include "report/flight_verdict.h"

#include <gmock/gmock.h>

#include <nlohmann/json.hpp>

#include "trace/flight.h"

namespace hearth::report {
namespace {

using testing::HasSubstr;
using trace::Flight;
using trace::FlightCall;
using trace::kAllPeers;

// The records of four ranks. Group 0: all; group 1: pairs (0, 1) and (2, 3).
class Ranks {
 public:
  Ranks() {
    for (int64_t rank = 0; rank < 4; ++rank)
      flights.push_back(
          {rank, 4, 100 + rank, "node", false, {{0, 1, 4}, {static_cast<int32_t>(rank / 2 * 2), 1, 2}}, {}});
  }
  // `now` in seconds; `seconds` 0: under way.
  void call(int64_t rank, const char* name, int32_t group, int64_t sequence, double now, double seconds,
            int32_t peer = kAllPeers, int64_t bytes = 64) {
    Flight& flight = flights[static_cast<size_t>(rank)];
    FlightCall call{flight.calls.size() + 1, sequence, 5, bytes, static_cast<int64_t>(1e9 * now), 0, group, peer, ""};
    if (seconds > 0) call.end_ns = static_cast<int64_t>(1e9 * (now + seconds));
    std::snprintf(call.name, sizeof call.name, "%s", name);
    flight.calls.push_back(call);
  }
  void all(const char* name, int32_t group, int64_t sequence, double now, double seconds) {
    for (int64_t rank = 0; rank < 4; ++rank) call(rank, name, group, sequence, now, seconds);
  }
  FlightVerdict verdict() const { return flight_verdict(flights); }

  std::vector<Flight> flights;
};

TEST(FlightVerdict, NamesTheRankThatDidNotCome) {
  Ranks ranks;
  ranks.all("all_gather", 0, 1, 10, 1);
  for (const int64_t rank : {0, 1, 3}) ranks.call(rank, "all_reduce", 0, 2, 12 + static_cast<double>(rank), 0);
  EXPECT_EQ(ranks.verdict().rank, 2);
  EXPECT_EQ(ranks.verdict().text,
            "rank 0 waits in all_reduce 2 of ranks 0, 1, 2, 3: 64 B; rank 2 (node, process 102) did not come: its last "
            "call was all_gather 1 of ranks 0, 1, 2, 3: 64 B");
}

// Rank 0 waits for 2, which waits for 3 in another group. Rank 3 waits for a row of rank 1, which computes.
TEST(FlightVerdict, FollowsWhatTheMissingRanksWaitFor) {
  Ranks ranks;
  ranks.call(0, "all_reduce", 0, 1, 10, 0);
  ranks.call(2, "reduce_scatter", 1, 1, 11, 0);
  ranks.call(3, "recv", 0, 0, 12, 0, 1);
  ranks.call(1, "all_gather", 1, 0, 9, 1, 0);
  const FlightVerdict verdict = ranks.verdict();
  EXPECT_EQ(verdict.rank, 1);
  EXPECT_THAT(verdict.text, HasSubstr("rank 1 (node, process 101) did not come"));
}

TEST(FlightVerdict, NamesWhoeverDidNotSendItsMessage) {
  Ranks ranks;
  for (int64_t rank = 0; rank < 4; ++rank) {
    if (rank != 3) ranks.call(rank, "the counts of a step", 0, 9, 10, 0.1, trace::kPostedMessage);
    if (rank < 2) ranks.call(rank, "the counts of a step", 0, 9, 11, 0, trace::kAwaitedMessage);
  }
  EXPECT_EQ(ranks.verdict().rank, 3);
  EXPECT_THAT(ranks.verdict().text, HasSubstr("rank 0 waits in \"the counts of a step\" (message 9)"));
  EXPECT_THAT(ranks.verdict().text, HasSubstr("it has made no call"));
}

// Each rank of an exchange of unequal parts has a number of bytes of its own.
TEST(FlightVerdict, TakesUnequalPartsForOneCall) {
  Ranks ranks;
  for (const int64_t rank : {0, 1, 2, 3}) ranks.call(rank, trace::kUnequalExchange, 0, 1, 10, 1, kAllPeers, 8 * rank);
  for (const int64_t rank : {0, 1, 3}) ranks.call(rank, "all_reduce", 0, 2, 12, 0);
  EXPECT_THAT(ranks.verdict().text, testing::Not(HasSubstr("different calls")));
  EXPECT_EQ(ranks.verdict().rank, 2);
}

TEST(FlightVerdict, NamesCallsThatDiffer) {
  Ranks ranks;
  ranks.all("all_gather", 0, 1, 10, 1);
  for (const int64_t rank : {0, 1, 3}) ranks.call(rank, "all_reduce", 0, 2, 12, 0);
  ranks.call(2, "all_reduce", 0, 2, 12, 0, kAllPeers, 32);
  EXPECT_EQ(ranks.verdict().text,
            "ranks 0 and 2 made different calls: all_reduce 2 of ranks 0, 1, 2, 3: 64 B, and all_reduce 2 of ranks 0, "
            "1, 2, 3: 32 B");
}

TEST(FlightVerdict, OfACallThatAllHaveBegunNamesARankThatAloneIsInIt) {
  Ranks ranks;
  ranks.all("all_gather", 0, 1, 10, 0);
  EXPECT_EQ(ranks.verdict().rank, std::nullopt);
  EXPECT_THAT(ranks.verdict().text, HasSubstr("which all its ranks have begun: one of them was stopped there"));
  for (const size_t rank : {0u, 1u, 3u}) ranks.flights[rank].calls.back().end_ns = 11'000'000'000;
  ranks.call(0, "all_reduce", 0, 2, 12, 0);
  EXPECT_EQ(ranks.verdict().rank, 2);
  EXPECT_THAT(ranks.verdict().text, HasSubstr("which others have ended: it hangs there"));
}

TEST(FlightVerdict, OfEndsWithoutAWait) {
  Ranks ranks;
  ranks.all("all_gather", 0, 1, 10, 1);
  EXPECT_THAT(ranks.verdict().text, HasSubstr("no rank waits for another, and all have made the same calls"));
  ranks.call(1, "all_gather", 0, 2, 12, 1);  // as on a GPU, where calls are only enqueued
  EXPECT_EQ(ranks.verdict().text, "rank 0 made 1 calls of ranks 0, 1, 2, 3, rank 1 made 2");
  for (Flight& flight : ranks.flights) flight.ended = true;
  EXPECT_EQ(ranks.verdict().text, "all ranks ended well");
  ranks.flights.erase(ranks.flights.begin() + 2);
  EXPECT_EQ(ranks.verdict().rank, 2);
  EXPECT_THAT(ranks.verdict().text, HasSubstr("rank 2 left no record"));
}

TEST(FlightVerdict, OfACircleNamesItsRanks) {
  Ranks ranks;
  ranks.call(0, "recv", 0, 0, 10, 0, 1);
  ranks.call(1, "recv", 0, 0, 11, 0, 0);
  EXPECT_THAT(ranks.verdict().text, HasSubstr("ranks 0, 1 wait for each other in a circle"));
}

TEST(FlightVerdict, IsPrintedBehindALineForEachRank) {
  Ranks ranks;
  ranks.all("all_gather", 0, 1, 10, 1);
  ranks.call(0, "all_reduce", 0, 2, 13, 0);
  const std::string text = format_flights(ranks.flights, 2);
  EXPECT_THAT(text, HasSubstr("rank 0 (node, process 100): step 5, all_reduce 2 of ranks 0, 1, 2, 3: 64 B, under way, "
                              "begun 0.0 s before the newest record\n"));
  EXPECT_THAT(text, HasSubstr("rank 1 (node, process 101): step 5, all_gather 1 of ranks 0, 1, 2, 3: 64 B, 1.0 s, "
                              "begun 3.0 s before the newest record\n"));
  const auto json = nlohmann::json::parse(flights_json(ranks.flights, 2));
  EXPECT_EQ(json.at("rank"), 1);
  EXPECT_EQ(json.at("ranks")[0].at("calls").size(), 2U);
  EXPECT_TRUE(json.at("ranks")[0].at("calls")[1].at("end_ns").is_null());
}

}  // namespace
}  // namespace hearth::report
