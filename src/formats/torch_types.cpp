#include "formats/torch_types.h"

#include <array>

#include "base/error.h"

namespace hearth::formats {
namespace {

struct Type {
  DType dtype;
  std::string_view storage;
};

constexpr std::array kTypes = {
    Type{DType::kFloat32, "FloatStorage"},     Type{DType::kFloat64, "DoubleStorage"},
    Type{DType::kBFloat16, "BFloat16Storage"}, Type{DType::kFloat16, "HalfStorage"},
    Type{DType::kInt64, "LongStorage"},        Type{DType::kInt32, "IntStorage"},
    Type{DType::kInt16, "ShortStorage"},       Type{DType::kInt8, "CharStorage"},
    Type{DType::kUInt8, "ByteStorage"},        Type{DType::kBool, "BoolStorage"},
};
constexpr std::string_view kTorchModule = "torch.";

}  // namespace

std::optional<DType> dtype_of_torch(std::string_view global) {
  if (!global.starts_with(kTorchModule)) return std::nullopt;
  for (const Type& type : kTypes) {
    if (dtype_name(type.dtype) == global.substr(kTorchModule.size())) return type.dtype;
  }
  return std::nullopt;
}

std::optional<DType> dtype_of_storage(std::string_view global) {
  if (!global.starts_with(kTorchModule)) return std::nullopt;
  for (const Type& type : kTypes) {
    if (type.storage == global.substr(kTorchModule.size())) return type.dtype;
  }
  return std::nullopt;
}

std::string_view storage_class(DType dtype) {
  for (const Type& type : kTypes) {
    if (type.dtype == dtype) return type.storage;
  }
  HEARTH_CHECK(false, "dtype {}", static_cast<int>(dtype));
}

}  // namespace hearth::formats
