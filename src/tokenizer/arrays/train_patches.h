// Learns a vocabulary of patches: the most frequent ones get ids of their own, every other one that was seen the id of
// the reference it points most nearly in the direction of (cosine).
//
// Source of the rule: the neural-data repositories' patch tokenizer. Where it says nothing: of equally frequent patches
// the one with the smaller bytes comes first; of equal cosines the smallest id wins, and cosines are compared exactly,
// in integers.
#pragma once

#include <cstdint>
#include <vector>

#include "tokenizer/arrays/patches.h"
#include "tokenizer/bpe/train.h"

namespace hearth::tokenizer {

// The vocab_size - 1 most frequent patches as references, fewer if there are not so many; all others with id 0, for
// NearestReference (nearest_reference.h) to fill in. Patches are `shape.cells()` bytes each. Throws user_error where
// nothing was counted.
PatchVocabulary most_frequent_patches(const PieceCounts& counts, PatchShape shape, int64_t vocab_size);

}  // namespace hearth::tokenizer
