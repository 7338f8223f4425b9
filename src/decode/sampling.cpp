// SPDX-License-Identifier: Apache-2.0
#include "decode/sampling.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>
#include <vector>

#include "base/error.h"

namespace hearth::decode {
namespace {

// A logit that is NaN has no place in an order.
double number(double logit) { return std::isnan(logit) ? -std::numeric_limits<double>::infinity() : logit; }

// The tokens from the most likely on. A vocabulary is long, and mostly its first tokens are asked for: they alone are
// sorted.
class Ranking {
 public:
  Ranking(std::span<const double> logits, double temperature)
      : logits_(logits), temperature_(temperature), ids_(logits.size()) {
    std::iota(ids_.begin(), ids_.end(), 0);
    largest_ = logit(id(0));
  }

  int64_t id(size_t rank) {
    while (rank >= sorted_) sort_more();
    return ids_[rank];
  }
  // The probability, up to a factor: 1 for the first token.
  double weight(size_t rank) { return weight_of(id(rank)); }
  // The sum over the first `count` tokens.
  double total(size_t count) {
    double sum = 0;
    if (count == ids_.size()) {
      for (const int64_t id : ids_) sum += weight_of(id);
    } else {
      for (size_t rank = 0; rank < count; ++rank) sum += weight(rank);
    }
    return sum;
  }

 private:
  double logit(int64_t id) const { return number(logits_[static_cast<size_t>(id)]); }
  double weight_of(int64_t id) const { return std::exp((logit(id) - largest_) / temperature_); }

  void sort_more() {
    constexpr size_t kFirst = 64, kFactor = 8;
    const auto less = [this](int64_t a, int64_t b) { return logit(a) != logit(b) ? logit(a) > logit(b) : a < b; };
    const size_t until = std::min(ids_.size(), std::max(kFirst, kFactor * sorted_));
    const auto begin = ids_.begin() + static_cast<std::ptrdiff_t>(sorted_);
    const auto end = ids_.begin() + static_cast<std::ptrdiff_t>(until);
    if (end != ids_.end()) std::nth_element(begin, end, ids_.end(), less);
    std::sort(begin, end, less);
    sorted_ = until;
  }

  std::span<const double> logits_;
  double temperature_, largest_ = 0;
  std::vector<int64_t> ids_;
  size_t sorted_ = 0;  // ids_ begins with so many in order
};

}  // namespace

int64_t sample_token(std::span<const double> logits, const SamplingOptions& options, double uniform) {
  HEARTH_CHECK(!logits.empty());
  if (options.temperature == 0) {
    const auto less = [](double a, double b) { return number(a) < number(b); };
    return std::max_element(logits.begin(), logits.end(), less) - logits.begin();
  }

  Ranking ranking(logits, options.temperature);
  size_t count = logits.size();
  if (options.top_k > 0) count = std::min(count, static_cast<size_t>(options.top_k));
  double total = ranking.total(count);
  if (options.top_p < 1) {
    double kept = 0;
    size_t rank = 0;
    while (rank < count && kept < options.top_p * total) kept += ranking.weight(rank++);
    // top_p = 0 keeps the most likely token.
    count = std::max<size_t>(rank, 1);
    total = rank == 0 ? ranking.weight(0) : kept;
  }
  if (options.min_p > 0) {
    size_t rank = 0;
    while (rank < count && ranking.weight(rank) >= options.min_p) ++rank;
    if (rank < count) total = ranking.total(count = rank);
  }

  double threshold = uniform * total;
  for (size_t rank = 0; rank + 1 < count; ++rank) {
    threshold -= ranking.weight(rank);
    if (threshold < 0) return ranking.id(rank);
  }
  return ranking.id(count - 1);
}

double certainty(std::span<const double> logits) {
  const double largest = *std::max_element(logits.begin(), logits.end());
  double sum = 0;
  for (const double logit : logits) sum += std::exp(logit - largest);
  return 1 / sum;
}

double probability(std::span<const double> logits, int64_t id) {
  const double largest = *std::max_element(logits.begin(), logits.end());
  return certainty(logits) * std::exp(logits[static_cast<size_t>(id)] - largest);
}

}  // namespace hearth::decode
