// SPDX-License-Identifier: Apache-2.0
// A run in a terminal: `hearth top`. A view is text for a whole screen, and a line is for a log.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "metrics/jsonl.h"
#include "report/run_page.h"
#include "trace/flight.h"

namespace hearth::report {

struct LiveRun {
  std::string name, state;  // "quickstart", "running"
  metrics::History history{};
  int64_t steps = 0;  // of the whole run; 0: not known
  PagePlan plan{};
  std::vector<trace::Flight> ranks{};  // the last calls of several ranks; empty: none are recorded
  double now = 0;                      // seconds since 1970
};

struct Screen {
  int64_t columns = 80, rows = 24;
  bool braille = true;  // the curve in braille characters (UTF-8); else in ASCII
};

// The run's remaining time at the pace of the last 50 steps, including saves and validations between them. Empty if it
// is not known or no step is left.
std::optional<double> seconds_left(const LiveRun& run);

// Lines that fit the screen: state, progress, the curve of the loss, bars of speed and memory, and the ranks.
std::vector<std::string> live_view(const LiveRun& run, const Screen& screen);
// "step 120/2000  loss 3.21  12.3 k tokens/s  mfu 31.2%  5 min left  running".
std::string live_line(const LiveRun& run);

// `values` as a curve of `columns` x `rows` characters, each of 2 x 4 dots, from `low` at the bottom to `high` at the
// top. A value outside is drawn at the edge. Neighbours are joined. NaN leaves a gap.
std::vector<std::string> curve_of_dots(const std::vector<double>& values, double low, double high, int64_t columns,
                                       int64_t rows, bool braille);

}  // namespace hearth::report
