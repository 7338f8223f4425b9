// SPDX-License-Identifier: Apache-2.0
#include "plan/context_parallel.h"

#include <algorithm>

#include "base/error.h"

namespace hearth::plan {

int64_t key_ranks_of(int64_t size, int64_t H, int64_t G) {
  for (int64_t key_ranks = 1; key_ranks < size; ++key_ranks) {
    const int64_t heads = size / key_ranks;
    if (size % key_ranks == 0 && H % heads == 0 && (G % heads == 0 || heads % G == 0)) return key_ranks;
  }
  return size;
}

bool divides_sequence(const SequencePart& part, int64_t S) {
  return S % part.size == 0 && (part.key_ranks == 1 || S % (2 * part.key_ranks) == 0);
}

Chunks chunks_of(const SequencePart& part, int64_t S) {
  HEARTH_CHECK(divides_sequence(part, S), "{} positions for {} ranks, {} with keys", S, part.size, part.key_ranks);
  if (part.key_ranks == 1) return {};
  const int64_t chunk = S / (2 * part.key_ranks), r = part.key_rank();
  return {r * chunk, (2 * part.key_ranks - 1 - r) * chunk, chunk};
}

std::vector<PositionRange> positions_of(const SequencePart& part, int64_t S) {
  const Chunks chunks = chunks_of(part, S);
  const int64_t count = S / part.size, begin = part.head_rank() * count, end = begin + count;
  const int64_t border = std::clamp(chunks.length, begin, end);  // between the chunks
  std::vector<PositionRange> ranges;
  if (begin < border) ranges.push_back({chunks.position(begin), border - begin});
  if (border < end) ranges.push_back({chunks.position(border), end - border});
  return ranges;
}

}  // namespace hearth::plan
