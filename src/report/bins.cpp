// SPDX-License-Identifier: Apache-2.0
#include "report/bins.h"

#include <algorithm>
#include <limits>

namespace hearth::report {

int64_t bin_width(int64_t last_step) { return last_step <= kMostBins ? 1 : (last_step - 1) / kMostBins + 1; }

Bins binned(std::span<const metrics::StepRecord> records, int64_t width, const Metric& metric) {
  constexpr double kNone = std::numeric_limits<double>::quiet_NaN();
  Bins bins;
  std::vector<int64_t> counts;
  for (const metrics::StepRecord& record : records) {
    const std::optional<double> value = record.step > 0 ? metric(record) : std::nullopt;
    if (!value) continue;
    const int64_t bin = (record.step - 1) / width;
    if (counts.empty()) bins.first = bin;
    const auto at = static_cast<size_t>(bin - bins.first);
    if (at >= counts.size()) {
      counts.resize(at + 1, 0);
      for (std::vector<double>* values : {&bins.low, &bins.mean, &bins.high}) values->resize(at + 1, kNone);
    }
    const bool first = counts[at]++ == 0;
    bins.low[at] = first ? *value : std::min(bins.low[at], *value);
    bins.high[at] = first ? *value : std::max(bins.high[at], *value);
    bins.mean[at] = first ? *value : bins.mean[at] + (*value - bins.mean[at]) / static_cast<double>(counts[at]);
  }
  return bins;
}

}  // namespace hearth::report
