// Element types as safetensors names them.
#pragma once

#include <optional>
#include <string_view>

#include "base/dtype.h"

namespace hearth::formats {

// "BF16"; empty for types that Hearth lacks (F8_E4M3, C64).
std::optional<DType> dtype_of_safetensors(std::string_view name);
std::string_view safetensors_name(DType dtype);

}  // namespace hearth::formats
