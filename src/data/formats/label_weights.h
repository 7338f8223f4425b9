// SPDX-License-Identifier: Apache-2.0
// Weights of a document's tokens as labels. A token's loss is multiplied by its weight, and a mean over tokens is a
// mean over weights. The default is 1; 0 leaves a token out.
#pragma once

#include <cstdint>
#include <limits>
#include <span>
#include <string>
#include <vector>

namespace hearth::data {

// Label of a token that does not count, in files of token ids and in batches (torch's ignore_index). Never change.
inline constexpr int32_t kIgnore = -100;

// Whether a number may be a weight: not negative, and finite as a float.
constexpr bool is_weight(double value) { return value >= 0 && value <= std::numeric_limits<float>::max(); }

// `ids` with kIgnore in place of those of weight 0.
std::vector<int32_t> masked_labels(std::span<const int32_t> ids, std::span<const float> weights);

// Weights of consecutive places, as runs of equal weights. A place is an id, or a byte of a text. A token of a text has
// the weight of its first byte. A text's first and last run may be empty: they hold the weights of BOS and EOS.
class WeightRuns {
 public:
  struct Run {
    int64_t end;  // the number of places up to the run's end, from the first run on
    float weight;
    bool operator==(const Run&) const = default;
  };

  // Adds `count` places. A last run of 0 places is removed when more places are added, unless it is the first run.
  void append(int64_t count, float weight);
  void append(const WeightRuns& following);

  const std::vector<Run>& runs() const { return runs_; }
  bool empty() const { return runs_.empty(); }
  int64_t places() const { return empty() ? 0 : runs_.back().end; }
  bool all_one() const;  // also without runs
  bool operator==(const WeightRuns&) const = default;

 private:
  std::vector<Run> runs_;
};

// Totals of some tokens' weights.
struct WeightTotals {
  bool is_mask = true;  // each is 0 or 1
  int64_t counted = 0;  // tokens whose weight is not 0
  double sum = 0;
  void add(int64_t count, float weight);
  bool operator==(const WeightTotals&) const = default;
};

// For people: "1200 of 4000 tokens count (30.00 %)", and the sum of weights other than 0 and 1.
std::string describe_weights(const WeightTotals& weights, int64_t tokens);

}  // namespace hearth::data
