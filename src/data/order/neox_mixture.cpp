// SPDX-License-Identifier: Apache-2.0
#include "data/order/neox_mixture.h"

#include <algorithm>
#include <numeric>

#include "base/error.h"

namespace hearth::data {
namespace {

// Adds like numpy.sum: below 8 numbers one by one, below 129 in 8 sums, above in two halves. The last bit of a weight
// can decide a choice.
double numpy_sum(std::span<const double> values) {
  if (values.size() < 8) return std::accumulate(values.begin(), values.end(), 0.0);
  if (values.size() > 128) {
    const size_t half = values.size() / 2 / 8 * 8;
    return numpy_sum(values.first(half)) + numpy_sum(values.subspan(half));
  }
  double sums[8];
  std::copy_n(values.begin(), 8, sums);
  size_t i = 8;
  for (; i + 8 <= values.size(); i += 8) {
    for (size_t k = 0; k < 8; ++k) sums[k] += values[i + k];
  }
  const double sum = ((sums[0] + sums[1]) + (sums[2] + sums[3])) + ((sums[4] + sums[5]) + (sums[6] + sums[7]));
  return std::accumulate(values.begin() + static_cast<std::ptrdiff_t>(i), values.end(), sum);
}

}  // namespace

NeoxMixture::NeoxMixture(std::span<const double> weights, uint64_t samples)
    : weights_(weights.begin(), weights.end()), end_(weights.size()) {
  HEARTH_CHECK(!weights.empty() && weights.size() <= kMaxSources);
  HEARTH_CHECK(std::ranges::all_of(weights, [](double weight) { return weight > 0; }));
  // Normalized twice, as in GPT-NeoX: in Python when sources are asked for samples, and in NumPy when they are mixed.
  const double sum = std::accumulate(weights_.begin(), weights_.end(), 0.0);
  for (double& weight : weights_) weight /= sum;
  const double again = numpy_sum(weights_);
  for (double& weight : weights_) weight /= again;

  sources_.reserve(samples);
  for (uint64_t g = 0; g < samples; ++g) {
    if (g % kBlock == 0) before_.insert(before_.end(), end_.begin(), end_.end());
    const size_t source = choose(g, end_.data());
    sources_.push_back(static_cast<uint8_t>(source));
    ++end_[source];
  }
  before_.insert(before_.end(), end_.begin(), end_.end());
}

// Compiled without fused multiply-add (src/CMakeLists.txt), which would round once instead of twice.
size_t NeoxMixture::choose(uint64_t g, const uint64_t* given) const {
  const double samples = std::max(static_cast<double>(g), 1.0);
  size_t chosen = 0;
  double furthest = weights_[0] * samples - static_cast<double>(given[0]);
  for (size_t source = 1; source < weights_.size(); ++source) {
    const double behind = weights_[source] * samples - static_cast<double>(given[source]);
    if (behind <= furthest) continue;
    furthest = behind;
    chosen = source;
  }
  return chosen;
}

NeoxMixture::Counts NeoxMixture::counts_at(uint64_t g) const {
  if (g >= sources_.size()) {
    Counts counts = end_;
    for (uint64_t at = sources_.size(); at < g; ++at) ++counts[choose(at, counts.data())];
    return counts;
  }
  const auto row = before_.begin() + static_cast<std::ptrdiff_t>(g / kBlock * weights_.size());
  Counts counts(row, row + static_cast<std::ptrdiff_t>(weights_.size()));
  for (uint64_t at = g / kBlock * kBlock; at < g; ++at) ++counts[sources_[at]];
  return counts;
}

Mixture::Pick NeoxMixture::pick(uint64_t g) const {
  if (g >= sources_.size()) {
    const Counts counts = counts_at(g);
    const size_t source = choose(g, counts.data());
    return {static_cast<int64_t>(source), counts[source]};
  }
  const auto first = sources_.begin() + static_cast<std::ptrdiff_t>(g / kBlock * kBlock);
  const auto here = sources_.begin() + static_cast<std::ptrdiff_t>(g);
  const auto in_block = static_cast<uint64_t>(std::count(first, here, *here));
  return {*here, before_[g / kBlock * weights_.size() + *here] + in_block};
}

uint64_t NeoxMixture::count(int64_t source, uint64_t g) const { return counts_at(g)[static_cast<size_t>(source)]; }

uint64_t NeoxMixture::samples_until(int64_t source, uint64_t count) const {
  if (count == 0) return 0;
  const auto s = static_cast<size_t>(source);
  uint64_t g = 0;
  if (end_[s] < count) {
    Counts counts = end_;
    for (g = sources_.size(); counts[s] < count; ++g) ++counts[choose(g, counts.data())];
    return g;
  }
  // The sample is in the last block with fewer samples of the source before it.
  uint64_t low = 0, high = (sources_.size() + kBlock - 1) / kBlock;
  while (high - low > 1) {
    const uint64_t middle = (low + high) / 2;
    (before_[middle * weights_.size() + s] < count ? low : high) = middle;
  }
  uint64_t seen = before_[low * weights_.size() + s];
  for (g = low * kBlock; seen < count; ++g) seen += sources_[g] == s ? 1 : 0;
  return g;
}

}  // namespace hearth::data
