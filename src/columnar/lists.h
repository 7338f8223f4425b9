// SPDX-License-Identifier: Apache-2.0
// Arrow's five kinds of lists as one, and types without their extension names.
#pragma once

#include <arrow/array.h>
#include <arrow/type.h>

#include <memory>

namespace hearth::columnar {

bool is_any_list(arrow::Type::type id);

// Replaces an extension type by its storage type: Array2D of `datasets` by lists of lists.
std::shared_ptr<arrow::DataType> without_extension(std::shared_ptr<arrow::DataType> type);

// The innermost element type of lists of lists; adds the number of list levels to `num_lists`.
std::shared_ptr<arrow::DataType> without_lists(std::shared_ptr<arrow::DataType> type, int& num_lists);

// Element `i` of an array of lists of any kind: the elements [begin, end) of `values`.
struct Elements {
  const arrow::Array& values;
  int64_t begin = 0, end = 0;
  int64_t size() const { return end - begin; }
};
Elements elements_of(const arrow::Array& lists, int64_t i);
// The place of the list's first null; -1: it has none.
int64_t first_null(const Elements& list);

// The array inside structs of one member. If a struct is null in row `i`, returns this struct, in which the row is
// null.
const arrow::Array& inside_structs(const arrow::Array& column, int64_t i);

// Returns body(pointer) of an array of integers, from index 0 on, nulls included.
template <typename Body>
auto with_integers(const arrow::Array& values, Body body) {
  using arrow::Type;
  switch (values.type_id()) {
    case Type::INT8:
      return body(static_cast<const arrow::Int8Array&>(values).raw_values());
    case Type::INT16:
      return body(static_cast<const arrow::Int16Array&>(values).raw_values());
    case Type::INT32:
      return body(static_cast<const arrow::Int32Array&>(values).raw_values());
    case Type::INT64:
      return body(static_cast<const arrow::Int64Array&>(values).raw_values());
    case Type::UINT8:
      return body(static_cast<const arrow::UInt8Array&>(values).raw_values());
    case Type::UINT16:
      return body(static_cast<const arrow::UInt16Array&>(values).raw_values());
    case Type::UINT32:
      return body(static_cast<const arrow::UInt32Array&>(values).raw_values());
    default:
      return body(static_cast<const arrow::UInt64Array&>(values).raw_values());
  }
}

}  // namespace hearth::columnar
