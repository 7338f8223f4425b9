// SPDX-License-Identifier: Apache-2.0
// How the ranks of context parallel share a sequence. This is arithmetic; all calls are Local.
//
// As many ranks as the heads allow exchange heads for positions (DeepSpeed-Ulysses, arXiv 2309.14509): the head ranks,
// which are neighbours. Where there are more ranks, groups of head ranks have different positions, and each gathers the
// keys and values of all others: the key ranks. Sequences have 2R equal chunks: group r of R has chunk r and chunk 2R -
// 1 - r. Under a causal mask all groups then have equal work (Llama 3, arXiv 2407.21783, section 3.3.2).
#pragma once

#include <cstdint>
#include <limits>
#include <vector>

namespace hearth::plan {

// Positions of a sequence, in ascending order: `length` from `first` on, then those from `second` on. Default: all.
struct Chunks {
  static constexpr int64_t kNone = std::numeric_limits<int64_t>::max();
  int64_t first = 0, second = kNone, length = kNone;

  int64_t position(int64_t i) const { return i < length ? first + i : second + (i - length); }
  bool operator==(const Chunks&) const = default;
};

// One of the ranks that share every sequence.
struct SequencePart {
  int64_t rank = 0, size = 1;
  int64_t key_ranks = 1;  // divides size

  int64_t head_ranks() const { return size / key_ranks; }
  int64_t key_rank() const { return rank / head_ranks(); }
  int64_t head_rank() const { return rank % head_ranks(); }
};

// The fewest key ranks for `size` ranks, H query heads and G key/value heads. The number of head ranks, size / key
// ranks, must divide H, and must divide G or be a multiple of it.
int64_t key_ranks_of(int64_t size, int64_t H, int64_t G);

// Whether sequences of S positions can be cut into equal parts for these ranks.
bool divides_sequence(const SequencePart& part, int64_t S);

// The positions of which this rank's group of head ranks computes the attention.
Chunks chunks_of(const SequencePart& part, int64_t S);

// `count` positions from `begin` on.
struct PositionRange {
  int64_t begin, count;
  bool operator==(const PositionRange&) const = default;
};
// The positions of this rank, in the order of its rows: S / size of them in one or two ranges.
std::vector<PositionRange> positions_of(const SequencePart& part, int64_t S);

}  // namespace hearth::plan
