// Many values of base/random at once: the same numbers, drawn by vector.
#pragma once

#include <cstdint>

#include "base/random.h"

namespace hearth::ops {

// out[i] = float(random_truncated_normal(key, first + i, std, bound)) for i < n, to the last bit. Logarithm and cosine
// of a vector may miss those of libm by a few units of a double's last place, which a float seldom shows; where it
// could, and where a value might lie beyond the bound, the value is drawn by base/random.
void fill_normal(float* out, int64_t n, RandomKey key, uint64_t first, double std, double bound);

}  // namespace hearth::ops
