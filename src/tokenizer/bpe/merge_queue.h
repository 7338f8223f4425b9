// Merges a long row of symbols in the order that byte-pair encoding asks for: lowest rank first, leftmost of equals.
//
// Pairs wait in a bucket for each rank, and a tree of bits finds the lowest bucket that is not empty. A bucket is taken
// as a whole: what a merge brings forth has, as a rule, a higher rank, and goes to a later bucket. The exception (a
// merge list in which a token is used before it is made) waits in a small heap. So a pair costs a few look-ups, however
// long the row is: the whole takes time in proportion to its length.
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

  // Appends to `ids` what is left of `symbols`. Throws user_error for more than 2^30 symbols.
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
  std::vector<uint32_t> symbols_, next_, previous_, ranks_;  // by place; ranks_: of the pair that begins there
  std::vector<Entry> entries_;
  std::vector<uint32_t> heads_;              // by rank: the bucket's newest entry
  std::vector<uint64_t> bits_, upper_bits_;  // which buckets are not empty; which words of bits_ are not zero
  std::vector<uint32_t> bucket_;             // the places of the bucket that is being worked off, ascending
  size_t bucket_next_ = 0;
  uint32_t bucket_rank_ = 0;
  bool has_bucket_ = false;  // one was taken; lower ranks than its go to early_, also when it is worked off
  std::priority_queue<Waiting, std::vector<Waiting>, std::greater<>> early_;
};

}  // namespace hearth::tokenizer
