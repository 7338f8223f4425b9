// SPDX-License-Identifier: Apache-2.0
// Statistics of a dataset: lengths of documents, frequencies of tokens, repeated documents.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "data/shard/dataset.h"

namespace hearth::data {

// Documents of 0, 1, 2 to 3, 4 to 7, ... tokens.
struct LengthBin {
  int64_t least = 0, most = 0;
  int64_t documents = 0, tokens = 0;
};

struct SplitStats {
  std::string name;
  int64_t documents = 0, tokens = 0, text_bytes = 0;
  std::optional<WeightTotals> weights;  // of its tokens as labels; nothing: each weighs 1
  int64_t shortest = 0, longest = 0;    // tokens of a document
  std::vector<LengthBin> lengths;       // from the shortest to the longest; bins between may be empty
  std::vector<int64_t> token_counts;    // of each id, [vocab_size]
  int64_t duplicates = 0;               // documents that equal an earlier one of the split, token for token
  int64_t duplicate_tokens = 0;         // tokens of these documents
  int64_t in_earlier_splits = 0;        // documents that equal a document of an earlier split

  double bytes_per_token() const { return static_cast<double>(text_bytes) / static_cast<double>(tokens); }
  int64_t used_tokens() const;                              // ids that occur
  std::vector<int64_t> most_frequent(int64_t count) const;  // ids; of equal counts the smaller id first
};

// Statistics of each split with documents, in the manifest's order. The same for any number of threads. Takes 16 bytes
// of memory per document, and 8 per thread and id of the vocabulary. Documents with equal XXH3-64 count as equal.
// Throws damaged() for a damaged block, and for an id outside the vocabulary.
std::vector<SplitStats> dataset_stats(const Dataset& dataset, int64_t threads);

}  // namespace hearth::data
