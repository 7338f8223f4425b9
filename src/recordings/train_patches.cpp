// SPDX-License-Identifier: Apache-2.0
#include "recordings/train_patches.h"

#include <algorithm>
#include <vector>

#include "base/error.h"

namespace hearth::recordings {

PatchVocabulary most_frequent_patches(std::span<const std::pair<std::string_view, int64_t>> counts, PatchShape shape,
                                      int64_t vocab_size) {
  std::vector<std::pair<std::string_view, int64_t>> patches(counts.begin(), counts.end());
  if (patches.empty()) throw user_error("there is no patch to learn from", "the arrays have no time bins");
  // Patches of equal frequency stay in the order of their bytes.
  std::stable_sort(patches.begin(), patches.end(), [](const auto& a, const auto& b) { return a.second > b.second; });
  PatchVocabulary v;
  v.shape = shape;
  v.vocab_size = vocab_size;
  const auto references = std::min(patches.size(), static_cast<size_t>(vocab_size - 1));
  for (size_t i = 0; i < patches.size(); ++i) {
    HEARTH_CHECK(patches[i].first.size() == static_cast<size_t>(shape.cells()));
    (i < references ? v.references : v.others) += patches[i].first;
  }
  v.other_ids.resize(patches.size() - references);
  return v;
}

}  // namespace hearth::recordings
