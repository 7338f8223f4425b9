// Element types as PyTorch's pickles name them.
#pragma once

#include <optional>
#include <string_view>

#include "base/dtype.h"

namespace hearth::formats {

// "torch.float32" and "torch.FloatStorage"; empty for unsupported types (float8, complex).
std::optional<DType> dtype_of_torch(std::string_view global);
std::optional<DType> dtype_of_storage(std::string_view global);
std::string_view storage_class(DType dtype);  // "FloatStorage", in module torch

}  // namespace hearth::formats
