#include "data/build/duplicates.h"

#include <algorithm>
#include <array>
#include <limits>
#include <mutex>

#include "base/error.h"
#include "base/parallel.h"
#include "data/build/records.h"

namespace hearth::data {
namespace {

struct Seen {
  Hash128 content;
  uint32_t unit = 0, index = 0;
  auto operator<=>(const Seen&) const = default;
};

// Contents by bits of their hash: threads rarely wait for each other, and each bin is sorted alone.
struct Bin {
  std::mutex mutex;
  std::vector<Seen> seen;
};
constexpr size_t kBins = 64;

}  // namespace

Duplicates find_duplicates(const std::vector<SourceFile>& sources, const std::vector<Unit>& units,
                           const BuildRules& rules, int64_t threads) {
  HEARTH_CHECK(units.size() < std::numeric_limits<uint32_t>::max());
  std::array<Bin, kBins> bins;
  for_each_index(static_cast<int64_t>(units.size()), threads, [&](int64_t unit) {
    std::array<std::vector<Seen>, kBins> found;
    UnitRecords records(sources, units[static_cast<size_t>(unit)], rules);
    uint32_t index = 0;
    for (Document document; records.next(document); ++index)
      found[document.content.high % kBins].push_back({document.content, static_cast<uint32_t>(unit), index});
    for (size_t i = 0; i < kBins; ++i) {
      const std::lock_guard lock(bins[i].mutex);
      bins[i].seen.insert(bins[i].seen.end(), found[i].begin(), found[i].end());
    }
  });

  Duplicates duplicates(units.size());
  std::mutex mutex;
  for_each_index(kBins, threads, [&](int64_t i) {
    std::vector<Seen>& seen = bins[static_cast<size_t>(i)].seen;
    std::sort(seen.begin(), seen.end());
    const std::lock_guard lock(mutex);
    for (size_t k = 1; k < seen.size(); ++k) {
      if (seen[k].content == seen[k - 1].content) duplicates[seen[k].unit].push_back(seen[k].index);
    }
    seen = {};
  });
  for (auto& of_unit : duplicates) std::sort(of_unit.begin(), of_unit.end());
  return duplicates;
}

}  // namespace hearth::data
