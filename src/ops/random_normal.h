// SPDX-License-Identifier: Apache-2.0
// Many values of base/random at once: the same numbers, by vector.
#pragma once

#include <cstdint>

#include "base/random.h"

namespace hearth::ops {

// out[i] = float(random_truncated_normal(key, first + i, std, bound)) for i < n, to the last bit. A vector's logarithm
// and cosine may differ from libm's by a few units in a double's last place, which seldom changes a float. Values that
// it could change, or that may be beyond the bound, are drawn by base/random.
void fill_normal(float* out, int64_t n, RandomKey key, uint64_t first, double std, double bound);

}  // namespace hearth::ops
