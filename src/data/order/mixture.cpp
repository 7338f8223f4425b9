// SPDX-License-Identifier: Apache-2.0
#include "data/order/mixture.h"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <queue>

#include "base/error.h"

namespace hearth::data {

// Largest remainder: rounds shares times kSlots down, and gives the remaining slots to the largest fractions. A source
// without weight does not change the others, so one may be added to a run.
std::vector<uint64_t> Mixture::slots_of(std::span<const double> weights) {
  if (weights.empty() || weights.size() > static_cast<size_t>(kSlots))
    throw user_error(fmt::format("{} data sources", weights.size()), fmt::format("1 to {} are possible", kSlots));
  double sum = 0;
  for (const double weight : weights) {
    if (!(weight >= 0) || !std::isfinite(weight))
      throw user_error(fmt::format("a data source has weight {}", weight),
                       "weights are shares, which cannot be negative",
                       "give every source a positive weight, or 0 to leave it out");
    sum += weight;
  }
  if (!(sum > 0) || !std::isfinite(sum))
    throw user_error(fmt::format("the weights of the data sources sum to {}", sum), "nothing would be read",
                     "give one of them a positive weight");
  std::vector<uint64_t> slots;
  std::vector<double> fractions;
  std::vector<size_t> order;
  for (size_t i = 0; i < weights.size(); ++i) {
    const double exact = weights[i] / sum * static_cast<double>(kSlots);
    slots.push_back(static_cast<uint64_t>(exact));
    fractions.push_back(exact - std::floor(exact));
    if (weights[i] > 0) order.push_back(i);
  }
  std::ranges::stable_sort(order, [&](size_t a, size_t b) { return fractions[a] > fractions[b]; });
  const uint64_t left = static_cast<uint64_t>(kSlots) - std::accumulate(slots.begin(), slots.end(), uint64_t{0});
  for (uint64_t i = 0; i < left; ++i) ++slots[order[i % order.size()]];
  for (size_t i = 0; i < slots.size(); ++i) {
    if (slots[i] == 0 && weights[i] > 0)
      throw user_error(fmt::format("data source {} has weight {}: too little compared with the others", i, weights[i]),
                       fmt::format("it gets no slot of {} and would never be read", kSlots),
                       "give it a larger weight, or 0 to leave it out");
  }
  return slots;
}

// Slot j of a source with n slots may be from floor(j * kSlots / n) on and should be before ceil((j + 1) * kSlots / n).
// Earliest deadline first meets all these limits (Tijdeman, Discrete Math. 32, 1980). Every prefix stays within one
// slot of the shares.
std::vector<uint32_t> Mixture::make_table(const std::vector<uint64_t>& slots) {
  constexpr auto kAll = static_cast<uint64_t>(kSlots);
  struct Waiting {
    uint64_t slot;  // in `ready` the deadline, in `later` the first possible slot
    size_t source;
    bool operator>(const Waiting& o) const { return slot != o.slot ? slot > o.slot : source > o.source; }
  };
  using Queue = std::priority_queue<Waiting, std::vector<Waiting>, std::greater<>>;
  Queue ready, later;
  for (size_t source = 0; source < slots.size(); ++source) {
    if (slots[source] > 0) later.push({0, source});
  }
  std::vector<uint32_t> given(slots.size());
  std::vector<uint32_t> table(kAll);
  for (uint64_t slot = 0; slot < kAll; ++slot) {
    for (; !later.empty() && later.top().slot <= slot; later.pop()) {
      const size_t source = later.top().source;
      ready.push({((given[source] + uint64_t{1}) * kAll + slots[source] - 1) / slots[source], source});
    }
    HEARTH_CHECK(!ready.empty() && ready.top().slot > slot);
    const size_t source = ready.top().source;
    ready.pop();
    table[slot] = static_cast<uint32_t>(source) << 16 | given[source]++;
    if (given[source] < slots[source]) later.push({given[source] * kAll / slots[source], source});
  }
  return table;
}

Mixture::Mixture(std::span<const double> weights)
    : Mixture(std::vector<MixtureSegment>{{0, {weights.begin(), weights.end()}}}) {}

Mixture::Mixture(const std::vector<MixtureSegment>& segments) {
  HEARTH_CHECK(!segments.empty() && segments.front().first_sample == 0);
  for (const MixtureSegment& given : segments) {
    HEARTH_CHECK(given.weights.size() == segments.front().weights.size());
    HEARTH_CHECK(segments_.empty() || given.first_sample > segments_.back().first_sample);
    Segment next;
    next.first_sample = given.first_sample;
    next.slots = slots_of(given.weights);
    next.before.resize(next.slots.size());
    for (size_t source = 0; source < next.slots.size(); ++source) {
      if (!segments_.empty()) next.before[source] = count(static_cast<int64_t>(source), given.first_sample);
      if (next.slots[source] == static_cast<uint64_t>(kSlots)) next.only_source = static_cast<int64_t>(source);
    }
    if (next.only_source < 0) next.table = make_table(next.slots);
    segments_.push_back(std::move(next));
  }
}

uint64_t Mixture::Segment::count(size_t source, uint64_t samples) const {
  if (table.empty()) return source == only_index() ? samples : 0;
  const auto rest = static_cast<std::ptrdiff_t>(samples % kSlots);
  const auto of_source = [source](uint32_t slot) { return slot >> 16 == source; };
  return samples / kSlots * slots[source] +
         static_cast<uint64_t>(std::count_if(table.begin(), table.begin() + rest, of_source));
}

uint64_t Mixture::Segment::samples_until(size_t source, uint64_t count) const {
  if (count == 0) return 0;
  if (slots[source] == 0) return kNever;
  if (table.empty()) return count;
  const uint64_t rounds = (count - 1) / slots[source];
  const auto wanted = static_cast<uint32_t>(source << 16 | (count - 1) % slots[source]);
  const auto found = std::ranges::find(table, wanted);
  return rounds * kSlots + static_cast<uint64_t>(found - table.begin()) + 1;
}

uint64_t Mixture::count(int64_t source, uint64_t g) const {
  const Segment& segment = segment_of(g);
  const auto i = static_cast<size_t>(source);
  return segment.before[i] + segment.count(i, g - segment.first_sample);
}

uint64_t Mixture::samples_until(int64_t source, uint64_t count) const {
  const auto i = static_cast<size_t>(source);
  if (count == 0) return 0;
  size_t at = segments_.size() - 1;
  while (segments_[at].before[i] >= count) --at;
  const Segment& segment = segments_[at];
  const uint64_t samples = segment.samples_until(i, count - segment.before[i]);
  return samples == kNever ? kNever : segment.first_sample + samples;
}

}  // namespace hearth::data
