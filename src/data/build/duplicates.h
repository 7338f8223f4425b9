// SPDX-License-Identifier: Apache-2.0
// Finds documents with the same content as an earlier one, anywhere in the corpus: --dedup exact.
#pragma once

#include <cstdint>
#include <vector>

#include "data/build/portions.h"
#include "data/shard/manifest.h"

namespace hearth::data {

// For each portion, the indices of its documents (as PortionReader counts them) that repeat an earlier one; ascending.
using Duplicates = std::vector<std::vector<uint32_t>>;

// Reads all documents once, on several threads; their number does not change the result. Takes 24 bytes of memory per
// document.
Duplicates find_duplicates(const std::vector<SourceFile>& sources, const std::vector<Portion>& portions,
                           const BuildRules& rules, int64_t threads);

}  // namespace hearth::data
