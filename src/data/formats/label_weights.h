// What the tokens of a document weigh as labels: the loss of predicting a token is multiplied by its weight, and the
// mean over tokens is one over weights. 1 is what every token weighs where nobody says otherwise; 0 leaves it out.
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

// `ids` with kIgnore in place of those that weigh 0.
std::vector<int32_t> masked_labels(std::span<const int32_t> ids, std::span<const float> weights);

// Weights of places that follow each other, as runs of equal ones. A place is an id, or a byte of a text, whose tokens
// weigh what their first byte does. A text's first and last run may be without a place: they are what BOS and EOS
// weigh.
class WeightRuns {
 public:
  struct Run {
    int64_t end;  // of its places, counted from the first run's begin
    float weight;
    bool operator==(const Run&) const = default;
  };

  void append(int64_t count, float weight);  // for the next `count` places; 0: where nothing else stands there
  void append(const WeightRuns& following);

  const std::vector<Run>& runs() const { return runs_; }
  bool empty() const { return runs_.empty(); }
  int64_t places() const { return empty() ? 0 : runs_.back().end; }
  bool all_one() const;  // also where there is no run
  bool operator==(const WeightRuns&) const = default;

 private:
  std::vector<Run> runs_;
};

// What the weights of some tokens come to.
struct WeightTotals {
  bool is_mask = true;  // each is 0 or 1
  int64_t counted = 0;  // tokens whose weight is not 0
  double sum = 0;
  void add(int64_t count, float weight);
  bool operator==(const WeightTotals&) const = default;
};

// For people: "1200 of 4000 tokens count (30.00 %)", and what weights besides 0 and 1 come to.
std::string describe_weights(const WeightTotals& weights, int64_t tokens);

}  // namespace hearth::data
