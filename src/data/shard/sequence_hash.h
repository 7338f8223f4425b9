// SPDX-License-Identifier: Apache-2.0
// A hash of sequences that can be joined: hash(a) joined with hash(b) is the hash of a followed by b. Parts of a
// dataset are hashed where they are made, and the result does not depend on threads or on the parts' sizes.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <string_view>

#include "base/hash.h"

namespace hearth::data {

// Two polynomials in the elements' hashes, modulo 2^61 - 1.
class SequenceHash {
 public:
  void append(const Hash128& element);
  void append(const SequenceHash& following);
  int64_t count() const { return count_; }
  std::string hex() const;  // 32 digits
  // Reads hex(), with the number of elements. Throws user_error for other text.
  static SequenceHash parse(std::string_view hex, int64_t count);

 private:
  std::array<uint64_t, 2> value_{0, 0}, power_{1, 1};  // power_: the base to the power of the count
  int64_t count_ = 0;
};

}  // namespace hearth::data
