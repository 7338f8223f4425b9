// SPDX-License-Identifier: Apache-2.0
// The view of a run in a terminal.
#include "report/live_view.h"

#include <gmock/gmock.h>

#include <cmath>
#include <limits>

namespace hearth::report {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

LiveRun live_run(int64_t steps) {
  LiveRun run;
  run.name = "one";
  run.state = "running";
  run.steps = 1000;
  for (int64_t step = 1; step <= steps; ++step) {
    metrics::StepRecord r;
    r.step = step;
    r.loss = 5;
    r.step_s = 1;
    r.time = 3.0 * static_cast<double>(step);
    r.tokens_per_second = 1000;
    run.history.records.push_back(r);
  }
  return run;
}

// Dots by the chart of braille patterns: 1 2 3 7 down the left side, 4 5 6 8 down the right one.
TEST(LiveView, ACurveIsDrawnInDotsOfBraille) {
  // From the lower left to the upper right of one character: dot 7, then 6, 5 and 4.
  EXPECT_THAT(curve_of_dots({0, 1}, 0, 1, 1, 1, true), ElementsAre("\xE2\xA1\xB8"));
  EXPECT_THAT(curve_of_dots({0, 0}, 0, 1, 1, 1, true), ElementsAre("\xE2\xA3\x80"));  // 7 8
  EXPECT_THAT(curve_of_dots({1, 1}, 0, 1, 1, 1, true), ElementsAre("\xE2\xA0\x89"));  // 1 4
  EXPECT_THAT(curve_of_dots({9, -9}, 0, 1, 1, 1, true), testing::SizeIs(1)) << "beyond the edges";
  const double nothing = std::numeric_limits<double>::quiet_NaN();
  EXPECT_THAT(curve_of_dots({nothing, nothing, 1}, 0, 1, 2, 1, true), ElementsAre("\xE2\xA0\x80\xE2\xA0\x81"));
  EXPECT_THAT(curve_of_dots({1, 1, 0, 0}, 0, 1, 2, 1, false), ElementsAre("'|"));
}

TEST(LiveView, EveryLineFitsTheScreen) {
  LiveRun run = live_run(300);
  run.ranks.resize(20);
  for (const int64_t columns : {20, 80, 200}) {
    for (const int64_t rows : {3, 24, 60}) {
      const std::vector<std::string> lines = live_view(run, {columns, rows, false});
      EXPECT_LE(std::ssize(lines), rows);
      for (const std::string& line : lines) EXPECT_LE(std::ssize(line), columns) << line;
    }
  }
  EXPECT_THAT(live_view(run, {80, 60, false}), testing::Contains("and 12 more ranks"));
}

TEST(LiveView, TheTimeLeftHasWhatIsBetweenSteps) {
  // A step takes 1 s and begins every 3 s: validation, saving.
  EXPECT_DOUBLE_EQ(seconds_left(live_run(300)).value(), 700 * 3);
  EXPECT_FALSE(seconds_left(live_run(0)).has_value());
  EXPECT_FALSE(seconds_left(live_run(1000)).has_value());
  EXPECT_THAT(live_line(live_run(300)),
              HasSubstr("step 300/1000  loss 5.0000  1.00 k tokens/s  35 min 00 s left  running"));
  EXPECT_EQ(live_line(live_run(0)), "no steps yet  running");
}

TEST(LiveView, ARankIsShownWithItsLastCall) {
  LiveRun run = live_run(3);
  run.now = 100;
  trace::Flight flight;
  flight.rank = 1;
  flight.ranks = 2;
  flight.groups = {{.first = 0, .step = 1, .count = 2}};
  trace::FlightCall call{};
  call.number = 1;
  call.sequence = 7;
  call.step = 4;
  call.bytes = 64;
  call.begin_ns = 98'000'000'000;
  call.peer = trace::kAllPeers;
  std::snprintf(call.name, sizeof call.name, "all_reduce");
  flight.calls = {call};
  run.ranks = {flight};
  const auto text = [&run] {
    std::string all;
    for (const std::string& line : live_view(run, {100, 30, false})) all += line + "\n";
    return all;
  };
  EXPECT_THAT(text(), HasSubstr("rank    1  step      4  in all_reduce 7 of "));
  EXPECT_THAT(text(), HasSubstr(", for 2.0 s\n"));
  run.ranks[0].calls[0].end_ns = 99'500'000'000;
  EXPECT_THAT(text(), HasSubstr("rank    1  step      4  computes, for 0.5 s\n"));
}

}  // namespace
}  // namespace hearth::report
