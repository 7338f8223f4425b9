// SPDX-License-Identifier: Apache-2.0
// Learns a vocabulary of patches. The most frequent patches become references with ids of their own. Every other patch
// in the data gets the id of the reference with the largest cosine.
//
// Source of the rule: the neural-data repositories' patch tokenizer. Our additions: equally frequent patches are
// ordered by their bytes; among equal cosines the smallest id wins; cosines are compared exactly, in integers.
#pragma once

#include <cstdint>
#include <vector>

#include "tokenizer/arrays/patches.h"
#include "tokenizer/bpe/train.h"

namespace hearth::tokenizer {

// The vocab_size - 1 most frequent patches as references, or all if there are fewer. All others get id 0, which
// NearestReference (nearest_reference.h) replaces later. A patch has `shape.cells()` bytes. Throws user_error if
// `counts` is empty.
PatchVocabulary most_frequent_patches(const PieceCounts& counts, PatchShape shape, int64_t vocab_size);

}  // namespace hearth::tokenizer
