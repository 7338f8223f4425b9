// SPDX-License-Identifier: Apache-2.0
// Merges a long sequence of symbols in the order of byte-pair encoding: lowest rank first, the leftmost one among
// equals.
//
// Each rank has a bucket of waiting pairs, and a tree of bits finds the lowest bucket that is not empty. A bucket is
// processed as a whole: a merge usually creates pairs of higher rank, which go to later buckets. Pairs of lower rank
// (from a merge list that uses a token before it is made) wait in a small heap. A pair costs a few look-ups, whatever
// the length, so the total time is proportional to the length.
#pragma once

#include <cstdint>
#include <queue>
#include <span>
#include <vector>

#include "tokenizer/bpe/tables.h"

namespace hearth::tokenizer {

class MergeQueue {
 public:
  explicit MergeQueue(const Bpe::Tables& tables) : tables_(tables) {}

  // Appends to `ids` the result of merging `symbols`. Throws user_error for more than 2^30 symbols.
  void merge(std::span<const uint32_t> symbols, std::vector<uint32_t>& ids);

 private:
  struct Waiting {
    uint32_t rank, place;
    bool operator>(const Waiting& other) const { return rank != other.rank ? rank > other.rank : place > other.place; }
  };
  struct Entry {
    uint32_t place, next;
  };

  void start(std::span<const uint32_t> symbols);
  void release_if_large();
  void wait(uint32_t place, uint32_t rank);
  void merge_at(uint32_t place, uint32_t rank);
  bool take_bucket();
  uint32_t rank_at(uint32_t place) const;

  const Bpe::Tables& tables_;
  std::vector<uint32_t> symbols_, next_, previous_, ranks_;  // by place; ranks_: of the pair that begins at the place
  std::vector<Entry> entries_;
  std::vector<uint32_t> heads_;              // by rank: the bucket's newest entry
  std::vector<uint64_t> bits_, upper_bits_;  // which buckets are not empty; which words of bits_ are not zero
  std::vector<uint32_t> bucket_;             // the places of the current bucket, ascending
  size_t bucket_next_ = 0;
  uint32_t bucket_rank_ = 0;
  bool has_bucket_ = false;  // a bucket was taken; pairs of its rank or lower now go to early_
  std::priority_queue<Waiting, std::vector<Waiting>, std::greater<>> early_;
};

}  // namespace hearth::tokenizer
