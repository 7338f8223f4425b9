// SPDX-License-Identifier: Apache-2.0
// The way of notes to rank 0. Ranks are cut into parts of neighbours. The first rank of a part collects its notes and
// sends one to rank 0, which is the first rank of the first part. So no rank receives more than about 2 sqrt(ranks)
// messages.
#pragma once

#include <cstdint>
#include <vector>

namespace hearth::comm {

struct NoteTree {
  int64_t rank = 0, size = 1;
  int64_t part = 1;  // ranks of a part; the last part may have fewer

  // All notes go straight to rank 0.
  static NoteTree star(int64_t rank, int64_t size) { return {rank, size, size}; }
  // The parts of a training: a power of two near sqrt(size), so that a part's sums are whole (pair_sums.h). Up to
  // kStar ranks are one part.
  static constexpr int64_t kStar = 64;
  static int64_t usual_part(int64_t size);

  bool collects() const { return rank % part == 0; }
  int64_t collector() const { return rank - rank % part; }
  int64_t parent() const { return collects() ? 0 : collector(); }  // only for ranks above 0
  // The ranks that send their notes to this one, ascending.
  std::vector<int64_t> children() const;
  // The last rank whose note is merged into the note of `child`, which may also be this rank.
  int64_t last_below(int64_t child) const;
};

}  // namespace hearth::comm
