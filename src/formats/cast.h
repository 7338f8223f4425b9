// SPDX-License-Identifier: Apache-2.0
// Converts weights between floating-point types. Rounds to nearest with ties to even, as PyTorch does.
#pragma once

#include <cstddef>
#include <span>
#include <vector>

#include "base/dtype.h"

namespace hearth::formats {

// Converts the elements of `in` into `out`, between any two of float32, float64, bfloat16 and float16.
void cast(std::span<const std::byte> in, DType from, DType to, std::vector<std::byte>& out);

// Whether an element is NaN or infinite.
bool has_nonfinite(std::span<const std::byte> values, DType dtype);

}  // namespace hearth::formats
