// SPDX-License-Identifier: Apache-2.0
// Finds the reference with the largest cosine to a patch: exactly, among tens of thousands of references.
//
// Counts are small and most are zero, so the positions of the zeros tell references apart. If a reference r has no
// count in a cell of patch p, that cell adds nothing to their cosine:
//
//   cos^2 |p|^2 <= sum of p_i^2 where r has counts,
//
// If r also has x counts in cells where p has none, and |r|^2 <= N, then the bound shrinks by the factor (1 - x / N). A
// tree orders references by the cells that have counts. A search enters only branches whose bound reaches the best so
// far. The tree takes cells modulo 16, so its bounds are looser for larger patches. All arithmetic is in integers, so
// equal cosines are equal on every machine.
#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <vector>

#include "recordings/patch_file.h"

namespace hearth::recordings {

// Immutable, shared by threads.
class NearestReference {
 public:
  // Copies the references.
  explicit NearestReference(const PatchVocabulary& vocabulary);

  // The id of the reference with the largest cosine to `patch`; the smallest such id if several are equal. The zero
  // vector has cosine 0 with every reference. If every cosine is 0, the id is 0.
  uint32_t id_of(std::span<const uint8_t> patch) const;

 private:
  static constexpr size_t kLevels = 4;

  // A branch: each of the four levels decides four of the 16 cells.
  struct Node {
    uint16_t bits = 0;            // the cells that have counts
    uint32_t begin = 0, end = 0;  // children in the next level; in the last level: references, in the tree's order
    int64_t longest = 0;          // the largest |r|^2 in this branch
  };
  struct Search;

  void add_to_tree(uint16_t mask, uint32_t place, int64_t square);
  std::span<const int16_t> reference(uint32_t place) const {
    return std::span(references_).subspan(place * stride_, stride_);
  }

  size_t cells_, stride_;  // a reference in memory: its cells, then zeros up to a whole number of vectors
  // In the tree's order, without the zero vector:
  std::vector<int16_t> references_;
  std::vector<int64_t> squares_;
  std::vector<uint32_t> ids_;
  std::array<std::vector<Node>, kLevels> levels_;
  std::vector<uint32_t> leaf_of_;  // [2^16] by mask: index in the last level + 1; 0: no leaf
};

}  // namespace hearth::recordings
