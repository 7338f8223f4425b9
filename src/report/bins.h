// SPDX-License-Identifier: Apache-2.0
// A metric of a long training in bins of neighbouring steps, so that a page of it stays small.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <vector>

#include "metrics/record.h"

namespace hearth::report {

// The most bins of a training. A chart has fewer pixels, so more bins would only make the page larger.
inline constexpr int64_t kMostBins = 1000;

// The steps of a bin, for trainings of up to `last_step` steps; 1: each step is a bin of its own.
int64_t bin_width(int64_t last_step);

// Bin i holds the steps from (first + i) * width + 1 on. NaN: no step of the bin has the metric.
struct Bins {
  int64_t first = 0;
  std::vector<double> low, mean, high;  // over the bin's steps
  bool empty() const { return mean.empty(); }
};

// `metric` of one record; empty: it was not measured. `records`: ascending, as metrics::read_metrics gives them.
using Metric = std::function<std::optional<double>(const metrics::StepRecord& record)>;
Bins binned(std::span<const metrics::StepRecord> records, int64_t width, const Metric& metric);

}  // namespace hearth::report
