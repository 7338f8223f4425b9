#include "data/mixture.h"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <queue>

#include "base/error.h"

namespace hearth::data {
namespace {

// Largest remainder: shares times kSlots rounded down, the slots left over to the largest fractions.
std::vector<int64_t> round_to_slots(std::span<const double> weights) {
  double sum = 0;
  for (const double weight : weights) {
    if (!(weight > 0) || !std::isfinite(weight))
      throw user_error(fmt::format("a data source has weight {}", weight), "weights are shares of tokens",
                       "give every source a positive weight, or remove it");
    sum += weight;
  }
  std::vector<int64_t> slots;
  std::vector<double> fractions;
  for (const double weight : weights) {
    const double exact = weight / sum * static_cast<double>(Mixture::kSlots);
    slots.push_back(static_cast<int64_t>(exact));
    fractions.push_back(exact - std::floor(exact));
  }
  std::vector<size_t> order(weights.size());
  std::iota(order.begin(), order.end(), size_t{0});
  std::stable_sort(order.begin(), order.end(), [&](size_t a, size_t b) { return fractions[a] > fractions[b]; });
  const int64_t left = Mixture::kSlots - std::accumulate(slots.begin(), slots.end(), int64_t{0});
  for (int64_t i = 0; i < left; ++i) ++slots[order[static_cast<size_t>(i) % order.size()]];
  for (size_t i = 0; i < slots.size(); ++i) {
    if (slots[i] == 0)
      throw user_error(fmt::format("data source {} has weight {}: too little beside the others", i + 1, weights[i]),
                       fmt::format("it gets no slot of {} and would never be read", Mixture::kSlots),
                       "give it a larger weight, or remove it");
  }
  return slots;
}

}  // namespace

Mixture::Mixture(std::span<const double> weights) {
  if (weights.empty() || weights.size() > static_cast<size_t>(kSlots))
    throw user_error(fmt::format("{} data sources", weights.size()), fmt::format("1 to {} are possible", kSlots));
  slots_ = round_to_slots(weights);
  if (weights.size() == 1) return;

  // Slot number j of a source with n slots may stand from floor(j * kSlots / n) on and should before
  // ceil((j + 1) * kSlots / n). Earliest deadline first among those that may meets all (Tijdeman, Discrete Math. 32,
  // 1980), which keeps every prefix within one slot of the shares.
  struct Waiting {
    int64_t deadline;
    size_t source;
    bool operator>(const Waiting& o) const {
      return deadline != o.deadline ? deadline > o.deadline : source > o.source;
    }
  };
  std::priority_queue<Waiting, std::vector<Waiting>, std::greater<>> ready;
  std::vector<std::vector<size_t>> released(static_cast<size_t>(kSlots));
  std::vector<uint32_t> given(slots_.size());
  for (size_t source = 0; source < slots_.size(); ++source) released[0].push_back(source);
  slot_source_.resize(static_cast<size_t>(kSlots));
  slot_rank_.resize(static_cast<size_t>(kSlots));
  for (size_t slot = 0; slot < static_cast<size_t>(kSlots); ++slot) {
    for (const size_t source : released[slot]) {
      const int64_t n = slots_[source], next = given[source] + int64_t{1};
      ready.push({(next * kSlots + n - 1) / n, source});
    }
    HEARTH_CHECK(!ready.empty() && ready.top().deadline > static_cast<int64_t>(slot));
    const size_t source = ready.top().source;
    ready.pop();
    slot_source_[slot] = static_cast<uint16_t>(source);
    slot_rank_[slot] = given[source]++;
    if (given[source] == slots_[source]) continue;
    const auto release = static_cast<size_t>(given[source] * kSlots / slots_[source]);
    released[std::max(release, slot + 1)].push_back(source);
  }
}

Mixture::Pick Mixture::pick(uint64_t g) const {
  if (slot_source_.empty()) return {0, g};
  const size_t slot = g % static_cast<uint64_t>(kSlots);
  const size_t source = slot_source_[slot];
  const uint64_t rounds = g / static_cast<uint64_t>(kSlots);
  return {static_cast<int64_t>(source), rounds * static_cast<uint64_t>(slots_[source]) + slot_rank_[slot]};
}

uint64_t Mixture::samples_until(int64_t source, uint64_t count) const {
  if (slot_source_.empty() || count == 0) return count;
  const auto slots = static_cast<uint64_t>(slots_[static_cast<size_t>(source)]);
  const uint64_t rounds = (count - 1) / slots;
  const auto rank = static_cast<uint32_t>((count - 1) % slots);
  for (size_t slot = 0; slot < slot_source_.size(); ++slot) {
    if (slot_source_[slot] == source && slot_rank_[slot] == rank)
      return rounds * static_cast<uint64_t>(kSlots) + slot + 1;
  }
  HEARTH_CHECK(false, "source {} has no slot of rank {}", source, rank);
  return 0;
}

}  // namespace hearth::data
