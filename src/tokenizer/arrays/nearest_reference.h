// Which reference a patch points most nearly in the direction of: the largest cosine, exactly, among tens of thousands.
//
// Counts are small and most of them zero, so which cells are zero says much. A reference r without a count where the
// patch p has one loses that part of p:
//
//   cos^2 |p|^2 <= sum of p_i^2 where r has counts,
//
// and, with x counts of r where p has none and |r|^2 <= N, no more than (1 - x / N) of that. References are kept in a
// tree by which cells they have counts in, and a search enters only branches that may hold what is not worse than the
// best so far. Cells are taken modulo 16 for that; larger patches just lose less by it. All of it is done in integers,
// so equal cosines are equal on every machine.
#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <vector>

#include "tokenizer/arrays/patches.h"

namespace hearth::tokenizer {

// Immutable, for any number of threads.
class NearestReference {
 public:
  // Copies the references.
  explicit NearestReference(const PatchVocabulary& vocabulary);

  // The id of the reference with the largest cosine to `patch`; of equal ones the smallest. The zero vector has cosine
  // 0 with all, and where all are 0 the id is 0.
  uint32_t id_of(std::span<const uint8_t> patch) const;

 private:
  static constexpr size_t kLevels = 4;

  // A branch: four of the 16 cells, one after the other, level by level.
  struct Node {
    uint16_t bits = 0;            // which of them have counts
    uint32_t begin = 0, end = 0;  // children in the next level; in the last one references, by their place in order
    int64_t longest = 0;          // the largest |r|^2 below
  };
  struct Search;

  void add_to_tree(uint16_t mask, uint32_t place, int64_t square);
  std::span<const int16_t> reference(uint32_t place) const {
    return std::span(references_).subspan(place * stride_, stride_);
  }

  size_t cells_, stride_;  // of a reference in memory: cells, and zeros up to a whole number of vectors
  // By the tree's order, without the zero vector:
  std::vector<int16_t> references_;
  std::vector<int64_t> squares_;
  std::vector<uint32_t> ids_;
  std::array<std::vector<Node>, kLevels> levels_;
  std::vector<uint32_t> leaf_of_;  // [2^16] index in the last level + 1, by which cells have counts; 0: none
};

}  // namespace hearth::tokenizer
