// SPDX-License-Identifier: Apache-2.0
#include "comm/notes/note_tree.h"

#include <algorithm>
#include <bit>
#include <cmath>

namespace hearth::comm {

int64_t NoteTree::usual_part(int64_t size) {
  if (size <= kStar) return size;
  return static_cast<int64_t>(std::bit_floor(static_cast<uint64_t>(std::sqrt(static_cast<double>(size)))));
}

std::vector<int64_t> NoteTree::children() const {
  std::vector<int64_t> ranks;
  if (!collects()) return ranks;
  for (int64_t r = rank + 1; r < std::min(rank + part, size); ++r) ranks.push_back(r);
  if (rank == 0)
    for (int64_t r = part; r < size; r += part) ranks.push_back(r);
  return ranks;
}

int64_t NoteTree::last_below(int64_t child) const {
  return child != rank && child % part == 0 ? std::min(child + part, size) - 1 : child;
}

}  // namespace hearth::comm
