// A keyed bijection on [0, n) that costs a few nanoseconds a look-up and no memory: the shuffle of an epoch.
//
// A Feistel network whose low half is l = ceil(w/2) bits of the w = ceil(log2 n) and whose high half is a number below
// ceil(n / 2^l), added to modulo that (Black & Rogaway, "Ciphers with arbitrary finite domains", CT-RSA 2002, call such
// networks generalized; Naor & Reingold, J. Cryptology 12, 1999, for why alternating keyed rounds permute). The network
// permutes fewer than n + 2^l numbers; one that leads beyond n goes through it again, which is rare, so that the branch
// is always guessed right. Below kTableSize there are too few bits to mix; a Fisher-Yates table takes its place.
#pragma once

#include <array>
#include <cstdint>

namespace hearth::data {

class Permutation {
 public:
  static constexpr uint64_t kTableSize = 64;

  // 1 <= n <= 2^62. The same (n, key) is the same permutation for ever: stored runs depend on it. Whoever changes it
  // raises kSampleOrderVersion.
  Permutation(uint64_t n, uint64_t key);

  uint64_t operator()(uint64_t index) const;  // index < n
  uint64_t size() const { return n_; }

 private:
  static constexpr int kRounds = 8;

  uint64_t n_;
  int low_bits_ = 0;
  uint64_t high_end_ = 0;
  std::array<uint64_t, kRounds> round_keys_{};
  std::array<uint8_t, kTableSize> table_{};
};

}  // namespace hearth::data
