// What a dataset holds, in numbers: how long its documents are, which tokens are frequent, which documents stand twice.
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
  std::optional<WeightTotals> weights;  // of its tokens as labels; none: each weighs 1
  int64_t shortest = 0, longest = 0;    // tokens of a document
  std::vector<LengthBin> lengths;       // from the shortest to the longest; bins between may be empty
  std::vector<int64_t> token_counts;    // of each id, [vocab_size]
  int64_t duplicates = 0;               // documents that equal an earlier one of the split, token for token
  int64_t duplicate_tokens = 0;         // of those
  int64_t in_earlier_splits = 0;        // documents of which an equal one is in a split before this

  double bytes_per_token() const { return static_cast<double>(text_bytes) / static_cast<double>(tokens); }
  int64_t used_tokens() const;                              // ids that occur
  std::vector<int64_t> most_frequent(int64_t count) const;  // ids, of equal counts the smaller first
};

// The statistics of each split that has documents, in the manifest's order. The same for any number of threads. Takes
// 16 bytes of memory a document and 8 a thread and id of the vocabulary; documents are held equal where their XXH3-64
// is. Throws damaged() where a block is, and where an id is outside the vocabulary.
std::vector<SplitStats> dataset_stats(const Dataset& dataset, int64_t threads);

}  // namespace hearth::data
