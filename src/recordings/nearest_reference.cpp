// SPDX-License-Identifier: Apache-2.0
#include "recordings/nearest_reference.h"

#include <algorithm>
#include <bit>
#include <numeric>

#include "base/error.h"

namespace hearth::recordings {
namespace {

__extension__ typedef unsigned __int128 Wide;

constexpr size_t kMaskBits = 16, kLevelBits = 4;
constexpr size_t kVector = 8;

// Bit i is set if a cell with index i, modulo 16, has a count.
uint16_t mask_of(std::span<const uint8_t> patch) {
  unsigned mask = 0;
  for (size_t i = 0; i < patch.size(); ++i) mask |= (patch[i] != 0 ? 1U : 0U) << i % kMaskBits;
  return static_cast<uint16_t>(mask);
}

uint16_t bits_at(uint16_t mask, size_t level) { return static_cast<uint16_t>(mask >> level * kLevelBits & 0xF); }

// A mask's place in the order of the tree: by its first four cells, then the next four.
unsigned rank_of(uint16_t mask) {
  unsigned rank = 0;
  for (size_t level = 0; level * kLevelBits < kMaskBits; ++level) rank = rank << kLevelBits | bits_at(mask, level);
  return rank;
}

// The dot product of two arrays of whole vectors: in blocks of eight, which a compiler can vectorize. 255^2 *
// kMostPatchCells fits.
int32_t dot(std::span<const int16_t> a, std::span<const int16_t> b) {
  int32_t sum = 0;
  for (size_t i = 0; i < a.size(); i += kVector) {
    int32_t part = 0;
    for (size_t k = 0; k < kVector; ++k) part += int32_t{a[i + k]} * b[i + k];
    sum += part;
  }
  return sum;
}

}  // namespace

NearestReference::NearestReference(const PatchVocabulary& v)
    : cells_(static_cast<size_t>(v.shape.cells())),
      stride_((cells_ + kVector - 1) / kVector * kVector),
      leaf_of_(size_t{1} << kMaskBits) {
  HEARTH_CHECK(v.shape.cells() <= kMostPatchCells);
  const size_t count = v.references.size() / cells_;
  const auto patch = [&](uint32_t id) {
    return std::span(reinterpret_cast<const uint8_t*>(v.references.data()) + id * cells_, cells_);
  };
  std::vector<uint16_t> masks(count);
  for (uint32_t id = 0; id < count; ++id) masks[id] = mask_of(patch(id));
  ids_.resize(count);
  std::iota(ids_.begin(), ids_.end(), 0U);
  std::erase_if(ids_, [&](uint32_t id) { return masks[id] == 0; });
  std::stable_sort(ids_.begin(), ids_.end(),
                   [&](uint32_t a, uint32_t b) { return rank_of(masks[a]) < rank_of(masks[b]); });
  references_.resize(ids_.size() * stride_);
  for (uint32_t place = 0; place < ids_.size(); ++place) {
    const auto from = patch(ids_[place]);
    std::copy(from.begin(), from.end(), references_.begin() + static_cast<ptrdiff_t>(place * stride_));
    squares_.push_back(dot(reference(place), reference(place)));
    add_to_tree(masks[ids_[place]], place, squares_.back());
  }
}

// The mask must be the last leaf's mask, or come after it in the order of the tree.
void NearestReference::add_to_tree(uint16_t mask, uint32_t place, int64_t square) {
  bool is_new = false;
  for (size_t level = 0; level < kLevels; ++level) {
    std::vector<Node>& nodes = levels_[level];
    const bool last = level + 1 == kLevels;
    if (!is_new) {
      const uint32_t first = level == 0 ? 0 : levels_[level - 1].back().begin;
      is_new = first == nodes.size() || nodes.back().bits != bits_at(mask, level);
    }
    if (is_new) {
      const uint32_t begin = last ? place : static_cast<uint32_t>(levels_[level + 1].size());
      nodes.push_back({bits_at(mask, level), begin, begin, 0});
      if (level > 0) ++levels_[level - 1].back().end;
      if (last) leaf_of_[mask] = static_cast<uint32_t>(nodes.size());
    }
    nodes.back().longest = std::max(nodes.back().longest, square);
    if (last) ++nodes.back().end;
  }
}

struct NearestReference::Search {
  const NearestReference& tree;
  uint16_t mask = 0;                           // the patch's mask
  std::array<int16_t, kMostPatchCells> patch;  // up to the stride
  // By level: the sum of squares for each choice of the level's four cells (taken), and over all cells from this level
  // on (rest).
  std::array<std::array<int64_t, 1 << kLevelBits>, kLevels> taken{};
  std::array<int64_t, kLevels + 1> rest{};
  uint32_t id = 0;
  int64_t best_dot = 0, best_square = 1;

  Search(const NearestReference& searched, std::span<const uint8_t> of) : tree(searched), mask(mask_of(of)) {
    std::copy(of.begin(), of.end(), patch.begin());
    std::fill(patch.begin() + static_cast<ptrdiff_t>(of.size()), patch.begin() + static_cast<ptrdiff_t>(tree.stride_),
              int16_t{0});
    std::array<int64_t, kMaskBits> squares{};
    for (size_t i = 0; i < of.size(); ++i) squares[i % kMaskBits] += int64_t{of[i]} * of[i];
    for (size_t level = kLevels; level-- > 0;) {
      for (size_t bit = 0; bit < kLevelBits; ++bit) {
        for (size_t i = 0; i < size_t{1} << bit; ++i)
          taken[level][(size_t{1} << bit) + i] = taken[level][i] + squares[level * kLevelBits + bit];
      }
      rest[level] = rest[level + 1] + taken[level].back();
    }
  }

  // Whether cos^2 |p|^2 = bound would be below the best so far; then the same with bound * share / whole.
  bool is_worse(int64_t bound) const { return bound * best_square < best_dot * best_dot; }
  bool is_worse(int64_t bound, int64_t share, int64_t whole) const {
    return static_cast<Wide>(bound * best_square) * static_cast<Wide>(share) <
           static_cast<Wide>(best_dot * best_dot) * static_cast<Wide>(whole);
  }

  void look_at(const Node& leaf) {
    for (uint32_t place = leaf.begin; place < leaf.end; ++place) {
      const int64_t d = dot(std::span<const int16_t>(patch).first(tree.stride_), tree.reference(place));
      if (d == 0) continue;
      const int64_t square = tree.squares_[place];
      const Wide here = static_cast<Wide>(d * d) * static_cast<Wide>(best_square);
      const Wide best = static_cast<Wide>(best_dot * best_dot) * static_cast<Wide>(square);
      if (here < best || (here == best && tree.ids_[place] > id)) continue;
      id = tree.ids_[place];
      best_dot = d;
      best_square = square;
    }
  }

  // Tries the likely references first: those whose mask is the patch's mask, or differs from it in one cell.
  void guess() {
    const auto look = [&](unsigned at) {
      if (tree.leaf_of_[at] != 0) look_at(tree.levels_.back()[tree.leaf_of_[at] - 1]);
    };
    look(mask);
    for (size_t bit = 0; bit < kMaskBits; ++bit) look(mask ^ 1U << bit);
  }

  void descend(size_t level, uint32_t begin, uint32_t end, int64_t before, int extra_before) {
    for (uint32_t i = begin; i < end; ++i) {
      const Node& node = tree.levels_[level][i];
      const int64_t sum = before + taken[level][node.bits], bound = sum + rest[level + 1];
      if (is_worse(bound)) continue;
      const int extra = extra_before + std::popcount(static_cast<uint16_t>(node.bits & ~bits_at(mask, level)));
      if (is_worse(bound, node.longest - extra, node.longest)) continue;
      if (level + 1 < kLevels)
        descend(level + 1, node.begin, node.end, sum, extra);
      else
        look_at(node);
    }
  }
};

uint32_t NearestReference::id_of(std::span<const uint8_t> patch) const {
  HEARTH_CHECK(patch.size() == cells_);
  Search search(*this, patch);
  search.guess();
  search.descend(0, 0, static_cast<uint32_t>(levels_[0].size()), 0, 0);
  return search.id;
}

}  // namespace hearth::recordings
