// SPDX-License-Identifier: Apache-2.0
// Random damage, the same every time.
#pragma once

#include <algorithm>
#include <cstddef>
#include <string>

#include "base/random.h"

namespace hearth::fuzz {

// A copy of `good` with one to eight edits: a byte set, a bit flipped, an extreme number written, a piece removed,
// repeated or moved.
inline std::string mutate(const std::string& good, uint64_t seed) {
  const RandomKey key = random_key(seed, "fuzz");
  uint64_t draws = 0;
  const auto below = [&](size_t n) { return static_cast<size_t>(random_u64(key, draws++) % std::max<size_t>(n, 1)); };
  std::string bytes = good;
  const size_t edits = 1 + below(8);
  for (size_t edit = 0; edit < edits && !bytes.empty(); ++edit) {
    const size_t at = below(bytes.size()), length = std::min(1 + below(24), bytes.size() - at);
    switch (below(6)) {
      case 0:
        bytes[at] = static_cast<char>(below(256));
        break;
      case 1:
        bytes[at] = static_cast<char>(bytes[at] ^ (1 << below(8)));
        break;
      case 2: {
        const uint64_t extremes[] = {0, ~uint64_t{0}, uint64_t{1} << 63, 0x7fffffffffffffff, 0xffffffff, 0x80000000};
        const uint64_t value = extremes[below(6)];
        for (size_t i = 0; i < std::min<size_t>(length, 8); ++i)
          bytes[at + i] = static_cast<char>(value >> (8 * i) & 0xff);
        break;
      }
      case 3:
        bytes.erase(at, length);
        break;
      case 4:
        bytes.insert(below(bytes.size()), bytes.substr(at, length));
        break;
      default: {
        const std::string piece = bytes.substr(at, length);
        const size_t to = below(bytes.size() - length + 1);
        std::copy(piece.begin(), piece.end(), bytes.begin() + static_cast<std::ptrdiff_t>(to));
      }
    }
  }
  return bytes;
}

}  // namespace hearth::fuzz
