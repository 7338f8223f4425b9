// A keyed bijection on [0, n) that costs a few nanoseconds a look-up and no memory: the shuffle of an epoch.
//
// An unbalanced Feistel network over the w = ceil(log2 n) bits of a number (high half w/2 bits rounded down, low half
// the rest; source: Naor & Reingold, J. Cryptology 12, 1999, for why alternating keyed rounds permute), walked along
// its cycle until the value falls below n (Black & Rogaway, "Ciphers with arbitrary finite domains", CT-RSA 2002):
// fewer than two networks on average. Below kTableSize the network has too few bits to mix; a Fisher-Yates table takes
// its place.
#pragma once

#include <array>
#include <cstdint>

namespace hearth::data {

class Permutation {
 public:
  static constexpr uint64_t kTableSize = 64;

  // 1 <= n <= 2^62. The same (n, key) is the same permutation for ever: stored runs depend on it. Never change.
  Permutation(uint64_t n, uint64_t key);

  uint64_t operator()(uint64_t index) const;  // index < n
  uint64_t size() const { return n_; }

 private:
  static constexpr int kRounds = 8;

  uint64_t n_;
  int low_bits_ = 0, high_bits_ = 0;
  std::array<uint64_t, kRounds> round_keys_{};
  std::array<uint8_t, kTableSize> table_{};
};

}  // namespace hearth::data
