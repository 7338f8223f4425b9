// SPDX-License-Identifier: Apache-2.0
#include "data/order/permutation.h"

#include <algorithm>
#include <bit>
#include <utility>

#include "base/error.h"

namespace hearth::data {
namespace {

// SplitMix64 (Steele, Lea, Flood, OOPSLA 2014): the finaliser that turns a counter into well mixed bits.
uint64_t mix(uint64_t x) {
  x += 0x9E3779B97F4A7C15;
  x = (x ^ (x >> 30)) * 0xBF58476D1CE4E5B9;
  x = (x ^ (x >> 27)) * 0x94D049BB133111EB;
  return x ^ (x >> 31);
}

// The round function, multiply-shift (Dietzfelbinger et al., J. Algorithms 25, 1997): the upper bits depend on every
// bit of the value. The round's key is both offset and multiplier.
uint64_t scramble(uint64_t value, uint64_t key) { return (value ^ key) * (key | 1); }

// Scales x from [0, 2^64) to [0, end).
uint64_t scaled(uint64_t x, uint64_t end) {
  return static_cast<uint64_t>((static_cast<unsigned __int128>(x) * end) >> 64);
}

}  // namespace

Permutation::Permutation(uint64_t n, uint64_t key) : n_(n) {
  HEARTH_CHECK(n >= 1 && n <= uint64_t{1} << 62);
  if (n < kTableSize) {
    for (uint64_t i = 0; i < n; ++i) table_[i] = static_cast<uint8_t>(i);
    for (uint64_t i = n - 1; i > 0; --i) {
      std::swap(table_[i], table_[scaled(mix(key + i), i + 1)]);
    }
    return;
  }
  low_bits_ = (static_cast<int>(std::bit_width(n - 1)) + 1) / 2;
  high_end_ = ((n - 1) >> low_bits_) + 1;
  for (size_t round = 0; round < kRounds; ++round) round_keys_[round] = mix(key + round);
}

uint64_t Permutation::operator()(uint64_t index) const {
  HEARTH_CHECK(index < n_);
  if (n_ < kTableSize) return table_[index];
  const uint64_t low_mask = (uint64_t{1} << low_bits_) - 1;
  uint64_t low = index & low_mask, high = index >> low_bits_;
  do {
    for (size_t round = 0; round < kRounds; round += 2) {
      high += scaled(scramble(low, round_keys_[round]), high_end_);
      high = std::min(high, high - high_end_);  // modulo: below the end the difference wraps around and is larger
      low ^= scramble(high, round_keys_[round + 1]) >> (64 - low_bits_);
    }
  } while ((high << low_bits_ | low) >= n_);
  return high << low_bits_ | low;
}

}  // namespace hearth::data
