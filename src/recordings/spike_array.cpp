// SPDX-License-Identifier: Apache-2.0
#include "recordings/spike_array.h"

#include <algorithm>

#include "base/error.h"

namespace hearth::recordings {

// Works in squares that stay in the cache.
std::vector<uint8_t> time_major(std::span<const uint8_t> counts, ArrayShape shape) {
  constexpr size_t kSquare = 64;
  const auto neurons = static_cast<size_t>(shape.neurons), bins = static_cast<size_t>(shape.bins);
  HEARTH_CHECK(counts.size() == neurons * bins);
  std::vector<uint8_t> result(counts.size());
  for (size_t n0 = 0; n0 < neurons; n0 += kSquare) {
    for (size_t b0 = 0; b0 < bins; b0 += kSquare) {
      const size_t n1 = std::min(n0 + kSquare, neurons), b1 = std::min(b0 + kSquare, bins);
      for (size_t b = b0; b < b1; ++b)
        for (size_t n = n0; n < n1; ++n) result[b * neurons + n] = counts[n * bins + b];
    }
  }
  return result;
}

}  // namespace hearth::recordings
