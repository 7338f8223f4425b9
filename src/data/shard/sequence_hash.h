// A hash of a sequence that can be joined: hash(a) joined with hash(b) is the hash of a followed by b. So parts of a
// dataset are hashed where they are made, and neither threads nor the size of the parts changes the result.
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
  // From hex() and the number of elements. Throws user_error for other text.
  static SequenceHash parse(std::string_view hex, int64_t count);

 private:
  std::array<uint64_t, 2> value_{0, 0}, power_{1, 1};  // power: of the base, with the count as exponent
  int64_t count_ = 0;
};

}  // namespace hearth::data
