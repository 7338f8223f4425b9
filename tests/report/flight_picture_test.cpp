// SPDX-License-Identifier: Apache-2.0
// The picture of ranks' calls, as its reader sees it: tests/report/flight_picture_reference.py.
#include "report/flight_picture.h"

#include <gmock/gmock.h>

#include <cstdio>
#include <nlohmann/json.hpp>

#include "base/error.h"
#include "base/file.h"
#include "support/environment.h"
#include "support/errors.h"

namespace hearth::report {
namespace {

using testing::HasSubstr;
using trace::Flight;
using trace::FlightCall;

nlohmann::json calls_shown(const std::vector<Flight>& flights, int64_t last = 0) {
  const test::ScratchFolder scratch;
  write_file_atomic(scratch / "calls.svg", flight_picture(flights, last));
  const auto run =
      test::run_command(fmt::format("python3 {} {}", test::source_path("tests/report/flight_picture_reference.py"),
                                    (scratch / "calls.svg").string()));
  EXPECT_EQ(run.exit_code, 0) << run.output;
  return nlohmann::json::parse(run.output);
}

constexpr int64_t kStart = 1'790'000'000'000'000'000;  // ns

// Times in milliseconds; end 0: under way.
FlightCall call(const char* name, int64_t step, double begin, double end, int32_t peer = trace::kAllPeers) {
  FlightCall result{1, 7, step, 64, kStart + static_cast<int64_t>(1e6 * begin), 0, 0, peer, ""};
  if (end > 0) result.end_ns = kStart + static_cast<int64_t>(1e6 * end);
  std::snprintf(result.name, sizeof result.name, "%s", name);
  return result;
}

std::vector<Flight> two_ranks() {
  std::vector<Flight> flights;
  for (int64_t rank = 0; rank < 2; ++rank) flights.push_back({rank, 2, 100 + rank, "node", false, {{0, 1, 2}}, {}});
  flights[0].calls = {call("all_gather", 1, 10, 11), call("all_gather", 2, 20, 24), call("reduce_scatter", 2, 25, 31),
                      call("counts <&>", 3, 32, 33, trace::kAwaitedMessage), call("send", 3, 33, 40, 1)};
  flights[1].calls = {call("all_gather", 2, 21, 24), call("all_to_all", 3, 34, 38), call("recv", 3, 39, 0, 0)};
  return flights;
}

TEST(FlightPicture, HasABarForEachCallOfTheLastTwoSteps) {
  const nlohmann::json picture = calls_shown(two_ranks());
  struct Bar {
    const char* rank;
    int lane;
    double begin, end;  // since the first
    const char* text;
  };
  const Bar bars[] = {{"rank 0", 0, 0, 4, "all_gather"},   {"rank 0", 0, 5, 11, "reduce_scatter"},
                      {"rank 0", 2, 12, 13, "counts <&>"}, {"rank 0", 1, 13, 20, "send"},
                      {"rank 1", 0, 1, 4, "all_gather"},   {"rank 1", 0, 14, 18, "all_to_all"},
                      {"rank 1", 1, 19, 20, "recv"}};
  ASSERT_EQ(picture.at("calls").size(), std::size(bars)) << picture;
  std::set<std::string> colours;
  for (size_t i = 0; i < std::size(bars); ++i) {
    const nlohmann::json& found = picture["calls"][i];
    EXPECT_EQ(found[0], bars[i].rank) << i;
    EXPECT_EQ(found[1], bars[i].lane) << i;
    EXPECT_NEAR(found[2], bars[i].begin, 0.01) << i;
    EXPECT_NEAR(found[3], bars[i].end, 0.01) << i;
    EXPECT_THAT(found[5].get<std::string>(), HasSubstr(bars[i].text)) << i;
    colours.insert(found[4]);
  }
  EXPECT_EQ(colours.size(), 6U);
  EXPECT_THAT(picture["calls"][6][5].get<std::string>(), HasSubstr("under way"));
  EXPECT_THAT(picture["steps"], testing::ElementsAre("step 2", "step 3", "step 2", "step 3"));
}

TEST(FlightPicture, HasAsManyCallsAsAreAskedForAndTheFirstOfManyRanks) {
  EXPECT_EQ(calls_shown(two_ranks(), 1).at("calls").size(), 2U);
  EXPECT_EQ(calls_shown(two_ranks(), 100).at("calls").size(), 8U);
  std::vector<Flight> many;
  for (int64_t rank = 0; rank < 70; ++rank)
    many.push_back({rank, 70, 100, "node", false, {{0, 1, 70}}, {call("all_gather", 1, 1, 2)}});
  const nlohmann::json picture = calls_shown(many);
  EXPECT_EQ(picture.at("calls").size(), kMostRanks);
  EXPECT_EQ(picture.at("title"), "Calls of 64 of 70 ranks to each other");
}

TEST(FlightPicture, WithoutACallIsAnError) {
  EXPECT_EQ(test::error_of([] {
              flight_picture({{0, 1, 1, "node", false, {}, {}}}, 0);
            }).message(),
            "there is no call to draw");
}

}  // namespace
}  // namespace hearth::report
