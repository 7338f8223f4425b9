// SPDX-License-Identifier: Apache-2.0
#include "data/formats/label_weights.h"

#include <fmt/core.h>

#include <algorithm>

namespace hearth::data {

std::vector<int32_t> masked_labels(std::span<const int32_t> ids, std::span<const float> weights) {
  std::vector<int32_t> labels(ids.begin(), ids.end());
  for (size_t i = 0; i < labels.size(); ++i)
    if (weights[i] == 0) labels[i] = kIgnore;
  return labels;
}

void WeightRuns::append(int64_t count, float weight) {
  if (weight == 0) weight = 0;  // not -0
  const bool follows_nothing = runs_.size() > 1 && runs_.back().end == runs_[runs_.size() - 2].end;
  if (follows_nothing) runs_.pop_back();  // it held the weight after the last place, and new places come now
  const int64_t end = places() + count;
  if (!runs_.empty() && runs_.back().weight == weight)
    runs_.back().end = end;
  else
    runs_.push_back({end, weight});
}

void WeightRuns::append(const WeightRuns& following) {
  int64_t begin = 0;
  for (const Run& run : following.runs_) {
    append(run.end - begin, run.weight);
    begin = run.end;
  }
}

bool WeightRuns::all_one() const {
  return std::ranges::all_of(runs_, [](const Run& run) { return run.weight == 1; });
}

void WeightTotals::add(int64_t count, float weight) {
  is_mask = is_mask && (weight == 0 || weight == 1);
  if (weight != 0) counted += count;
  sum += static_cast<double>(count) * static_cast<double>(weight);
}

std::string describe_weights(const WeightTotals& weights, int64_t tokens) {
  const double percent = tokens == 0 ? 0 : 100 * static_cast<double>(weights.counted) / static_cast<double>(tokens);
  const std::string sum = weights.is_mask ? "" : fmt::format(", with weights of {:.6g} in total", weights.sum);
  return fmt::format("{} of {} tokens count ({:.2f} %){}", weights.counted, tokens, percent, sum);
}

}  // namespace hearth::data
