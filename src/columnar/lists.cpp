// SPDX-License-Identifier: Apache-2.0
#include "columnar/lists.h"

#include <arrow/extension_type.h>

namespace hearth::columnar {
namespace {

using arrow::DataType;
using arrow::Type;

template <typename List>
Elements elements_as(const arrow::Array& array, int64_t i) {
  const auto& lists = static_cast<const List&>(array);
  const int64_t begin = lists.value_offset(i);
  return {*lists.values(), begin, begin + lists.value_length(i)};
}

}  // namespace

bool is_any_list(Type::type id) {
  return id == Type::LIST || id == Type::LARGE_LIST || id == Type::FIXED_SIZE_LIST || id == Type::LIST_VIEW ||
         id == Type::LARGE_LIST_VIEW;
}

std::shared_ptr<DataType> without_extension(std::shared_ptr<DataType> type) {
  while (type->id() == Type::EXTENSION) type = static_cast<const arrow::ExtensionType&>(*type).storage_type();
  return type;
}

std::shared_ptr<DataType> without_lists(std::shared_ptr<DataType> type, int& num_lists) {
  type = without_extension(type);
  while (is_any_list(type->id())) {
    type = without_extension(type->field(0)->type());
    ++num_lists;
  }
  return type;
}

Elements elements_of(const arrow::Array& lists, int64_t i) {
  switch (lists.type_id()) {
    case Type::LIST:
      return elements_as<arrow::ListArray>(lists, i);
    case Type::LARGE_LIST:
      return elements_as<arrow::LargeListArray>(lists, i);
    case Type::FIXED_SIZE_LIST:
      return elements_as<arrow::FixedSizeListArray>(lists, i);
    case Type::LIST_VIEW:
      return elements_as<arrow::ListViewArray>(lists, i);
    default:
      return elements_as<arrow::LargeListViewArray>(lists, i);
  }
}

int64_t first_null(const Elements& list) {
  for (int64_t k = list.begin; list.values.null_count() > 0 && k < list.end; ++k)
    if (list.values.IsNull(k)) return k - list.begin;
  return -1;
}

const arrow::Array& inside_structs(const arrow::Array& column, int64_t i) {
  const arrow::Array* array = &column;
  while (array->IsValid(i) && array->type_id() == Type::STRUCT)
    array = static_cast<const arrow::StructArray&>(*array).field(0).get();
  return *array;
}

}  // namespace hearth::columnar
