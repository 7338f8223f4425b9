#include "tokenizer/train_patches.h"

#include <algorithm>
#include <cmath>

#include "base/error.h"

namespace hearth::tokenizer {
namespace {

__extension__ typedef unsigned __int128 Wide;

int64_t dot(std::span<const uint8_t> a, std::span<const uint8_t> b) {
  int64_t sum = 0;
  for (size_t i = 0; i < a.size(); ++i) sum += int64_t{a[i]} * b[i];
  return sum;
}

std::span<const uint8_t> reference(const PatchVocabulary& v, size_t index, size_t cells) {
  return {reinterpret_cast<const uint8_t*>(v.references.data()) + index * cells, cells};
}

}  // namespace

PatchVocabulary most_frequent_patches(const PieceCounts& counts, PatchShape shape, int64_t vocab_size) {
  auto patches = counts.sorted();
  if (patches.empty()) throw user_error("there is no patch to learn from", "the arrays have no time bins");
  // By their bytes already; the more frequent first.
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

NearestReference::NearestReference(const PatchVocabulary& vocabulary)
    : vocabulary_(vocabulary),
      cells_(static_cast<size_t>(vocabulary.shape.cells())),
      count_(vocabulary.references.size() / cells_),
      directions_(cells_ * count_),
      squares_(count_) {
  for (size_t r = 0; r < count_; ++r) {
    const auto patch = reference(vocabulary_, r, cells_);
    squares_[r] = dot(patch, patch);
    if (squares_[r] == 0) continue;
    const double length = std::sqrt(static_cast<double>(squares_[r]));
    for (size_t i = 0; i < cells_; ++i) directions_[i * count_ + r] = static_cast<float>(patch[i] / length);
  }
}

// A search in float finds all that may be the largest, integers decide: dot1^2 / square1 against dot2^2 / square2.
uint32_t NearestReference::id_of(std::span<const uint8_t> patch) const {
  std::vector<float> cosines(count_);
  for (size_t i = 0; i < cells_; ++i) {
    if (patch[i] == 0) continue;
    const auto value = static_cast<float>(patch[i]);
    const float* row = directions_.data() + i * count_;
    for (size_t r = 0; r < count_; ++r) cosines[r] += value * row[r];
  }
  const float largest = *std::max_element(cosines.begin(), cosines.end());
  // A sum of n products of floats is off by n + 2 roundings (2^-24 each) of it at most; all terms are positive.
  const float near = largest * (1 - 2 * static_cast<float>(cells_ + 4) * 0x1p-23F);
  size_t best = 0;
  int64_t best_dot = 0;
  for (size_t r = 0; r < count_; ++r) {
    if (cosines[r] < near || squares_[r] == 0) continue;
    const int64_t d = dot(patch, reference(vocabulary_, r, cells_));
    const bool better =
        best_dot == 0 ? d > 0
                      : static_cast<Wide>(d) * static_cast<Wide>(d) * static_cast<Wide>(squares_[best]) >
                            static_cast<Wide>(best_dot) * static_cast<Wide>(best_dot) * static_cast<Wide>(squares_[r]);
    if (better) best = r, best_dot = d;
  }
  return static_cast<uint32_t>(best);
}

}  // namespace hearth::tokenizer
