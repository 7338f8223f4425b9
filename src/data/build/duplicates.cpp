// SPDX-License-Identifier: Apache-2.0
#include "data/build/duplicates.h"

#include <algorithm>
#include <array>
#include <limits>
#include <mutex>

#include "base/error.h"
#include "base/parallel.h"
#include "data/build/portion_reader.h"

namespace hearth::data {
namespace {

struct Seen {
  Hash128 content;
  uint32_t portion = 0, index = 0;
  auto operator<=>(const Seen&) const = default;
};

// Contents by bits of their hash: threads rarely wait for each other, and each bin is sorted alone.
struct Bin {
  std::mutex mutex;
  std::vector<Seen> seen;
};
constexpr size_t kBins = 64;

}  // namespace

Duplicates find_duplicates(const std::vector<SourceFile>& sources, const std::vector<Portion>& portions,
                           const BuildRules& rules, int64_t threads) {
  HEARTH_CHECK(portions.size() < std::numeric_limits<uint32_t>::max());
  std::array<Bin, kBins> bins;
  for_each_index(static_cast<int64_t>(portions.size()), threads, [&](int64_t portion) {
    std::array<std::vector<Seen>, kBins> found;
    PortionReader records(sources, portions[static_cast<size_t>(portion)], rules);
    uint32_t index = 0;
    for (Document document; records.next(document); ++index)
      found[document.content.high % kBins].push_back({document.content, static_cast<uint32_t>(portion), index});
    for (size_t i = 0; i < kBins; ++i) {
      const std::lock_guard lock(bins[i].mutex);
      bins[i].seen.insert(bins[i].seen.end(), found[i].begin(), found[i].end());
    }
  });

  Duplicates duplicates(portions.size());
  std::mutex mutex;
  for_each_index(kBins, threads, [&](int64_t i) {
    std::vector<Seen>& seen = bins[static_cast<size_t>(i)].seen;
    std::ranges::sort(seen);
    const std::lock_guard lock(mutex);
    for (size_t k = 1; k < seen.size(); ++k) {
      if (seen[k].content == seen[k - 1].content) duplicates[seen[k].portion].push_back(seen[k].index);
    }
    seen = {};
  });
  for (auto& of_unit : duplicates) std::ranges::sort(of_unit);
  return duplicates;
}

}  // namespace hearth::data
