// SPDX-License-Identifier: Apache-2.0
// A keyed bijection on [0, n): the shuffle of an epoch. A look-up takes a few nanoseconds; memory does not grow with n.
//
// A Feistel network. Its low half is l = ceil(w/2) bits of the w = ceil(log2 n). Its high half is a number below ceil(n
// / 2^l), with addition modulo that. Sources: Black & Rogaway, "Ciphers with arbitrary finite domains", CT-RSA 2002,
// call such networks generalized; Naor & Reingold, J. Cryptology 12, 1999, show why alternating keyed rounds permute.
// The network permutes fewer than n + 2^l numbers. A result of n or more goes through it again; this is rare, so the
// branch is predicted well. Below kTableSize there are too few bits to mix, and a Fisher-Yates table takes the
// network's place.
#pragma once

#include <array>
#include <cstdint>

namespace hearth::data {

class Permutation {
 public:
  static constexpr uint64_t kTableSize = 64;

  // 1 <= n <= 2^62. The same (n, key) must always give the same permutation: stored runs depend on it. A change raises
  // kSampleOrderVersion.
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
