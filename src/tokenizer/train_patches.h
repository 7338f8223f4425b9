// Learns a vocabulary of patches: the most frequent ones get ids of their own, every other one that was seen the id of
// the reference it points most nearly in the direction of (cosine).
//
// Source of the rule: the neural-data repositories' patch tokenizer. Where it says nothing: of equally frequent patches
// the one with the smaller bytes comes first; of equal cosines the smallest id wins, and cosines are compared exactly,
// in integers.
#pragma once

#include <cstdint>
#include <vector>

#include "tokenizer/patches.h"
#include "tokenizer/train_bpe.h"

namespace hearth::tokenizer {

// The vocab_size - 1 most frequent patches as references, fewer if there are not so many; all others with id 0, for
// NearestReference to fill in. Patches are `shape.cells()` bytes each. Throws user_error where nothing was counted.
PatchVocabulary most_frequent_patches(const PieceCounts& counts, PatchShape shape, int64_t vocab_size);

// Immutable, for any number of threads. A search takes about R * cells operations.
class NearestReference {
 public:
  explicit NearestReference(const PatchVocabulary& vocabulary);
  // The id of the reference with the largest cosine to `patch`; the zero vector has cosine 0 with all.
  uint32_t id_of(std::span<const uint8_t> patch) const;

 private:
  const PatchVocabulary& vocabulary_;
  size_t cells_, count_;
  std::vector<float> directions_;  // [cells, R]: references of length 1, transposed so that R is innermost
  std::vector<int64_t> squares_;   // [R] of the references' lengths
};

}  // namespace hearth::tokenizer
