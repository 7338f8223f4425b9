// SPDX-License-Identifier: Apache-2.0
#include "base/nearest.h"

#include <algorithm>
#include <cstdint>
#include <vector>

namespace hearth {

int64_t edit_distance(std::string_view a, std::string_view b) {
  // Rows i - 2, i - 1 and i of the usual table.
  std::vector<int64_t> before(b.size() + 1), last(b.size() + 1), row(b.size() + 1);
  for (size_t j = 0; j <= b.size(); ++j) last[j] = static_cast<int64_t>(j);
  for (size_t i = 1; i <= a.size(); ++i) {
    row[0] = static_cast<int64_t>(i);
    for (size_t j = 1; j <= b.size(); ++j) {
      const int64_t replaced = last[j - 1] + (a[i - 1] != b[j - 1] ? 1 : 0);
      row[j] = std::min({last[j] + 1, row[j - 1] + 1, replaced});
      if (i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1]) row[j] = std::min(row[j], before[j - 2] + 1);
    }
    std::swap(before, last);
    std::swap(last, row);
  }
  return last[b.size()];
}

std::string nearest(std::string_view name, std::span<const std::string> candidates) {
  std::string best;
  int64_t fewest = 0;
  for (const std::string& candidate : candidates) {
    const bool starts = name.size() >= 3 && candidate.starts_with(name);
    const int64_t edits = starts ? 1 : edit_distance(name, candidate);
    const auto longest = static_cast<int64_t>(std::max(name.size(), candidate.size()));
    if (!starts && 3 * edits > std::max<int64_t>(longest, 3)) continue;
    if (best.empty() || edits < fewest) {
      best = candidate;
      fewest = edits;
    }
  }
  return best;
}

}  // namespace hearth
