// SPDX-License-Identifier: Apache-2.0
#include "formats/type_names.h"

#include <algorithm>
#include <iterator>

#include "base/error.h"

namespace hearth::formats {
namespace {

struct TypeNames {
  DType dtype;
  std::string_view storage, safetensors;
};

constexpr TypeNames kTypeNames[] = {
    {DType::kFloat32, "FloatStorage", "F32"},      {DType::kFloat64, "DoubleStorage", "F64"},
    {DType::kBFloat16, "BFloat16Storage", "BF16"}, {DType::kFloat16, "HalfStorage", "F16"},
    {DType::kInt64, "LongStorage", "I64"},         {DType::kInt32, "IntStorage", "I32"},
    {DType::kInt16, "ShortStorage", "I16"},        {DType::kInt8, "CharStorage", "I8"},
    {DType::kUInt8, "ByteStorage", "U8"},          {DType::kBool, "BoolStorage", "BOOL"},
};

// The type whose name, by `name_of`, is `prefix` and the rest of `text`.
template <class NameOf>
std::optional<DType> find_type(std::string_view text, std::string_view prefix, const NameOf& name_of) {
  if (!text.starts_with(prefix)) return std::nullopt;
  for (const TypeNames& names : kTypeNames) {
    if (name_of(names) == text.substr(prefix.size())) return names.dtype;
  }
  return std::nullopt;
}

const TypeNames& names_of(DType dtype) {
  const auto found = std::find_if(std::begin(kTypeNames), std::end(kTypeNames),
                                  [dtype](const TypeNames& names) { return names.dtype == dtype; });
  HEARTH_CHECK(found != std::end(kTypeNames), "dtype {}", static_cast<int>(dtype));
  return *found;
}

}  // namespace

std::optional<DType> dtype_of_torch(std::string_view global) {
  return find_type(global, "torch.", [](const TypeNames& names) { return dtype_name(names.dtype); });
}

std::optional<DType> dtype_of_storage(std::string_view global) {
  return find_type(global, "torch.", [](const TypeNames& names) { return names.storage; });
}

std::optional<DType> dtype_of_safetensors(std::string_view name) {
  return find_type(name, "", [](const TypeNames& names) { return names.safetensors; });
}

std::string_view storage_class(DType dtype) { return names_of(dtype).storage; }
std::string_view safetensors_name(DType dtype) { return names_of(dtype).safetensors; }

}  // namespace hearth::formats
