// SPDX-License-Identifier: Apache-2.0
// Element types as files name them. Without LibTorch, so that `hearth` can read checkpoints.
#pragma once

#include <cstdint>
#include <string_view>

namespace hearth {

enum class DType { kFloat32, kFloat64, kBFloat16, kFloat16, kInt64, kInt32, kInt16, kInt8, kUInt8, kBool };

int64_t dtype_size(DType dtype);  // bytes per element
bool is_floating_point(DType dtype);
std::string_view dtype_name(DType dtype);  // "float32", as torch names it

}  // namespace hearth
