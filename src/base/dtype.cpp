// SPDX-License-Identifier: Apache-2.0
#include "base/dtype.h"

#include <iterator>

#include "base/error.h"

namespace hearth {
namespace {

struct Facts {
  DType dtype;
  std::string_view name;
  int64_t size;
  bool is_floating_point = false;
};

// In the order of the enumerators.
constexpr Facts kFacts[] = {
    {DType::kFloat32, "float32", 4, true},
    {DType::kFloat64, "float64", 8, true},
    {DType::kBFloat16, "bfloat16", 2, true},
    {DType::kFloat16, "float16", 2, true},
    {DType::kInt64, "int64", 8},
    {DType::kInt32, "int32", 4},
    {DType::kInt16, "int16", 2},
    {DType::kInt8, "int8", 1},
    {DType::kUInt8, "uint8", 1},
    {DType::kBool, "bool", 1},
};

const Facts& facts(DType dtype) {
  const auto index = static_cast<size_t>(dtype);
  HEARTH_CHECK(index < std::size(kFacts) && kFacts[index].dtype == dtype, "dtype {}", static_cast<int>(dtype));
  return kFacts[index];
}

}  // namespace

int64_t dtype_size(DType dtype) { return facts(dtype).size; }
bool is_floating_point(DType dtype) { return facts(dtype).is_floating_point; }
std::string_view dtype_name(DType dtype) { return facts(dtype).name; }

}  // namespace hearth
