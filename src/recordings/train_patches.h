// SPDX-License-Identifier: Apache-2.0
// Learns a vocabulary of patches. The most frequent patches become references with ids of their own. Every other patch
// in the data gets the id of the reference with the largest cosine.
//
// Source of the rule: the neural-data repositories' patch tokenizer. Our additions: equally frequent patches are
// ordered by their bytes; among equal cosines the smallest id wins; cosines are compared exactly, in integers.
#pragma once

#include <cstdint>
#include <span>
#include <string_view>
#include <utility>

#include "recordings/patch_file.h"

namespace hearth::recordings {

// The vocab_size - 1 most frequent patches as references, or all if there are fewer. All others get id 0, which
// NearestReference (nearest_reference.h) replaces later. `counts` has how often each patch occurs, sorted by bytes. A
// patch has `shape.cells()` bytes. Throws user_error if `counts` is empty.
PatchVocabulary most_frequent_patches(std::span<const std::pair<std::string_view, int64_t>> counts, PatchShape shape,
                                      int64_t vocab_size);

}  // namespace hearth::recordings
