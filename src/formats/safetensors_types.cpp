#include "formats/safetensors_types.h"

#include <array>
#include <utility>

#include "base/error.h"

namespace hearth::formats {
namespace {

constexpr std::array kSafetensorsTypes = {
    std::pair{DType::kFloat32, "F32"}, std::pair{DType::kFloat64, "F64"}, std::pair{DType::kBFloat16, "BF16"},
    std::pair{DType::kFloat16, "F16"}, std::pair{DType::kInt64, "I64"},   std::pair{DType::kInt32, "I32"},
    std::pair{DType::kInt16, "I16"},   std::pair{DType::kInt8, "I8"},     std::pair{DType::kUInt8, "U8"},
    std::pair{DType::kBool, "BOOL"},
};

}  // namespace

std::optional<DType> dtype_of_safetensors(std::string_view name) {
  for (const auto& [dtype, text] : kSafetensorsTypes) {
    if (name == text) return dtype;
  }
  return std::nullopt;
}

std::string_view safetensors_name(DType dtype) {
  for (const auto& [known, text] : kSafetensorsTypes) {
    if (known == dtype) return text;
  }
  HEARTH_CHECK(false, "dtype {}", static_cast<int>(dtype));
}

}  // namespace hearth::formats
