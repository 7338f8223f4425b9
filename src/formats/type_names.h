// SPDX-License-Identifier: Apache-2.0
// Element types as the files of other programs name them. Functions give nothing for types that Hearth lacks, such as
// float8.
#pragma once

#include <optional>
#include <string_view>

#include "base/dtype.h"

namespace hearth::formats {

// In PyTorch's pickles: "torch.float32" and "torch.FloatStorage".
std::optional<DType> dtype_of_torch(std::string_view global);
std::optional<DType> dtype_of_storage(std::string_view global);
std::string_view storage_class(DType dtype);  // "FloatStorage", in module torch

// In safetensors: "BF16".
std::optional<DType> dtype_of_safetensors(std::string_view name);
std::string_view safetensors_name(DType dtype);

}  // namespace hearth::formats
