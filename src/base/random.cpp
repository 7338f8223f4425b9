// SPDX-License-Identifier: Apache-2.0
#include "base/random.h"

#include <cmath>
#include <numbers>

#include "base/hash.h"

namespace hearth {

std::array<uint32_t, 4> philox(RandomKey key, uint64_t counter_low, uint64_t counter_high) {
  // Multipliers and Weyl constants of Philox4x32, section 3.3 of the paper.
  constexpr uint32_t kMultiplier0 = 0xD2511F53, kMultiplier1 = 0xCD9E8D57;
  constexpr uint32_t kWeyl0 = 0x9E3779B9, kWeyl1 = 0xBB67AE85;
  std::array<uint32_t, 4> c = {static_cast<uint32_t>(counter_low), static_cast<uint32_t>(counter_low >> 32),
                               static_cast<uint32_t>(counter_high), static_cast<uint32_t>(counter_high >> 32)};
  uint32_t k0 = key.word[0], k1 = key.word[1];
  for (int round = 0; round < 10; ++round) {
    const uint64_t product0 = uint64_t{kMultiplier0} * c[0];
    const uint64_t product1 = uint64_t{kMultiplier1} * c[2];
    c = {static_cast<uint32_t>(product1 >> 32) ^ c[1] ^ k0, static_cast<uint32_t>(product1),
         static_cast<uint32_t>(product0 >> 32) ^ c[3] ^ k1, static_cast<uint32_t>(product0)};
    k0 += kWeyl0;
    k1 += kWeyl1;
  }
  return c;
}

RandomKey random_key(uint64_t seed, std::string_view purpose) {
  StreamingHash hash;
  hash.update(std::string_view(reinterpret_cast<const char*>(&seed), sizeof seed));
  hash.update(purpose);
  const uint64_t h = hash.digest_64();
  return {{static_cast<uint32_t>(h), static_cast<uint32_t>(h >> 32)}};
}

uint64_t random_u64(RandomKey key, uint64_t index) {
  const auto b = philox(key, index);
  return uint64_t{b[0]} | uint64_t{b[1]} << 32;
}

double random_uniform(RandomKey key, uint64_t index) {
  return static_cast<double>(random_u64(key, index) >> 11) * 0x1p-53;
}

double random_normal(RandomKey key, uint64_t index, uint64_t draw) {
  const auto b = philox(key, index, draw);
  const uint64_t first = uint64_t{b[0]} | uint64_t{b[1]} << 32, second = uint64_t{b[2]} | uint64_t{b[3]} << 32;
  const double radius_uniform = (static_cast<double>(first >> 11) + 1) * 0x1p-53;  // (0, 1]: keeps the logarithm finite
  const double angle_uniform = static_cast<double>(second >> 11) * 0x1p-53;
  return std::sqrt(-2 * std::log(radius_uniform)) * std::cos(2 * std::numbers::pi * angle_uniform);
}

double random_truncated_normal(RandomKey key, uint64_t index, double std, double bound) {
  for (uint64_t draw = 0;; ++draw) {
    const double value = std * random_normal(key, index, draw);
    if (std::abs(value) <= bound) return value;
  }
}

}  // namespace hearth
