// SPDX-License-Identifier: Apache-2.0
// Randomness as a function: value = Philox4x32-10(key, counter). No generator has state: nothing random needs saving,
// and any rank can compute any value. Source: Salmon et al., "Parallel random numbers: as easy as 1, 2, 3", SC 2011.
//
// A key is made from the run's seed and a purpose ("init:layers.0.attention.wq.weight", "shuffle:epoch 3"). Streams of
// two purposes are independent.
#pragma once

#include <array>
#include <cstdint>
#include <string_view>

namespace hearth {

struct RandomKey {
  uint32_t word[2];
};

// The 128-bit block of ten Philox rounds.
std::array<uint32_t, 4> philox(RandomKey key, uint64_t counter_low, uint64_t counter_high = 0);

// Hashes seed and purpose into a key (XXH3).
RandomKey random_key(uint64_t seed, std::string_view purpose);

// Value number `index` of the stream `key`.
uint64_t random_u64(RandomKey key, uint64_t index);    // uniform over 2^64
double random_uniform(RandomKey key, uint64_t index);  // [0, 1), 53 bits
// N(0, 1) by Box-Muller, one value per block. Each `draw` is a further independent value at the same index.
double random_normal(RandomKey key, uint64_t index, uint64_t draw = 0);
// The first of std * random_normal(key, index, 0), std * random_normal(key, index, 1), ... that is in [-bound, bound].
// `bound` may be infinite.
double random_truncated_normal(RandomKey key, uint64_t index, double std, double bound);

}  // namespace hearth
