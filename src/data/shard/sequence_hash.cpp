// SPDX-License-Identifier: Apache-2.0
#include "data/shard/sequence_hash.h"

#include <algorithm>

namespace hearth::data {
namespace {

constexpr uint64_t kModulus = (uint64_t{1} << 61) - 1;
// Any two large numbers. They decide stored identities: never change.
constexpr std::array<uint64_t, 2> kBases = {0x09E3779B97F4A7C1, 0x1A2B7E151628AED2};

uint64_t multiply(uint64_t a, uint64_t b) {
  const unsigned __int128 product = static_cast<unsigned __int128>(a) * b;
  const uint64_t sum = static_cast<uint64_t>(product & kModulus) + static_cast<uint64_t>(product >> 61);
  return sum >= kModulus ? sum - kModulus : sum;
}

uint64_t add(uint64_t a, uint64_t b) { return a + b >= kModulus ? a + b - kModulus : a + b; }

uint64_t power(uint64_t base, int64_t exponent) {
  uint64_t result = 1;
  for (auto left = static_cast<uint64_t>(exponent); left > 0; left >>= 1) {
    if ((left & 1) != 0) result = multiply(result, base);
    base = multiply(base, base);
  }
  return result;
}

}  // namespace

void SequenceHash::append(const Hash128& element) {
  const std::array<uint64_t, 2> values = {element.high % kModulus, element.low % kModulus};
  for (size_t i = 0; i < 2; ++i) {
    value_[i] = add(multiply(value_[i], kBases[i]), values[i]);
    power_[i] = multiply(power_[i], kBases[i]);
  }
  ++count_;
}

void SequenceHash::append(const SequenceHash& following) {
  for (size_t i = 0; i < 2; ++i) {
    value_[i] = add(multiply(value_[i], following.power_[i]), following.value_[i]);
    power_[i] = multiply(power_[i], following.power_[i]);
  }
  count_ += following.count_;
}

std::string SequenceHash::hex() const { return to_hex64(value_[0]) + to_hex64(value_[1]); }

SequenceHash SequenceHash::parse(std::string_view hex, int64_t count) {
  SequenceHash hash;
  for (size_t i = 0; i < 2; ++i) {
    hash.value_[i] = from_hex64(hex.substr(std::min(16 * i, hex.size()), 16)) % kModulus;
    hash.power_[i] = power(kBases[i], count);
  }
  hash.count_ = count;
  return hash;
}

}  // namespace hearth::data
