#include "model/sampling.h"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <vector>

#include "base/error.h"

namespace hearth::model {

int64_t sample_token(std::span<const double> logits, const SamplingOptions& options, double uniform) {
  HEARTH_CHECK(!logits.empty());
  if (options.temperature == 0) return std::max_element(logits.begin(), logits.end()) - logits.begin();

  std::vector<int64_t> ids(logits.size());
  std::iota(ids.begin(), ids.end(), 0);
  std::stable_sort(ids.begin(), ids.end(), [&](int64_t a, int64_t b) {
    return logits[static_cast<size_t>(a)] > logits[static_cast<size_t>(b)];
  });
  if (options.top_k > 0) ids.resize(std::min(ids.size(), static_cast<size_t>(options.top_k)));

  const double largest = logits[static_cast<size_t>(ids.front())];
  std::vector<double> weight(ids.size());
  for (size_t i = 0; i < ids.size(); ++i)
    weight[i] = std::exp((logits[static_cast<size_t>(ids[i])] - largest) / options.temperature);
  double total = std::accumulate(weight.begin(), weight.end(), 0.0);

  if (options.top_p < 1) {
    double kept = 0;
    size_t count = 0;
    while (count < weight.size() && kept < options.top_p * total) kept += weight[count++];
    // top_p = 0 keeps the most likely token.
    weight.resize(std::max<size_t>(count, 1));
    total = count == 0 ? weight.front() : kept;
  }

  double threshold = uniform * total;
  for (size_t i = 0; i + 1 < weight.size(); ++i) {
    threshold -= weight[i];
    if (threshold < 0) return ids[i];
  }
  return ids[weight.size() - 1];
}

double certainty(std::span<const double> logits) {
  const double largest = *std::max_element(logits.begin(), logits.end());
  double sum = 0;
  for (const double logit : logits) sum += std::exp(logit - largest);
  return 1 / sum;
}

}  // namespace hearth::model
