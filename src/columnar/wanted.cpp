#include "columnar/wanted.h"

#include <arrow/array.h>
#include <arrow/extension_type.h>

#include <span>
#include <utility>

namespace hearth::columnar {
namespace {

using arrow::Array;
using arrow::ArrayData;
using arrow::DataType;
using arrow::Type;
using data::Problem;

bool is_any_list(Type::type id) {
  return id == Type::LIST || id == Type::LARGE_LIST || id == Type::FIXED_SIZE_LIST || id == Type::LIST_VIEW ||
         id == Type::LARGE_LIST_VIEW;
}

bool is_any_text(Type::type id) {
  return id == Type::STRING || id == Type::LARGE_STRING || id == Type::STRING_VIEW || id == Type::BINARY ||
         id == Type::LARGE_BINARY || id == Type::BINARY_VIEW || id == Type::NA;
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

// The type that `key` leads to, and the way there; null: nowhere.
std::shared_ptr<DataType> find(const arrow::FieldVector& fields, std::string_view key, std::vector<int>& way) {
  for (size_t i = 0; i < fields.size(); ++i) {
    if (fields[i]->name() != key) continue;
    way.push_back(static_cast<int>(i));
    return fields[i]->type();
  }
  for (size_t i = 0; i < fields.size(); ++i) {
    const std::string& name = fields[i]->name();
    if (key.size() <= name.size() || !key.starts_with(name) || key[name.size()] != '.') continue;
    int ignored = 0;
    const auto inner = without_lists(fields[i]->type(), ignored);
    if (inner->id() != Type::STRUCT) continue;
    way.push_back(static_cast<int>(i));
    if (auto found = find(inner->fields(), key.substr(name.size() + 1), way)) return found;
    way.pop_back();
  }
  return nullptr;
}

enum class Kind { kText, kIds, kNeither };

Kind kind_of(const std::shared_ptr<DataType>& type) {
  int num_lists = 0;
  const auto inner = without_lists(type, num_lists);
  if (inner->id() == Type::DICTIONARY)
    return is_any_text(static_cast<const arrow::DictionaryType&>(*inner).value_type()->id()) ? Kind::kText
                                                                                             : Kind::kNeither;
  if (is_any_text(inner->id())) return Kind::kText;
  return arrow::is_integer(inner->id()) && num_lists == 1 ? Kind::kIds : Kind::kNeither;
}

std::string list_of_columns(const arrow::Schema& schema) {
  constexpr int kMostNamed = 20;
  std::string text;
  for (int i = 0; i < schema.num_fields() && i < kMostNamed; ++i)
    text += (i == 0 ? "" : ", ") + schema.field(i)->name() + " (" + schema.field(i)->type()->ToString() + ")";
  return text + (schema.num_fields() > kMostNamed ? ", ..." : "");
}

// `data` with bytes for strings, which then need not be UTF-8 to be valid, and of structs only the members on the way.
std::shared_ptr<ArrayData> narrowed(const std::shared_ptr<ArrayData>& data, std::span<const int> members) {
  auto copy = data->Copy();
  copy->type = without_extension(data->type);
  const auto set_child = [&](size_t from, std::span<const int> rest) {
    auto child = narrowed(data->child_data[from], rest);
    auto field = copy->type->field(static_cast<int>(from))->WithType(child->type);
    copy->child_data = {std::move(child)};
    return field;
  };
  switch (copy->type->id()) {
    case Type::STRING:
      copy->type = arrow::binary();
      break;
    case Type::LARGE_STRING:
      copy->type = arrow::large_binary();
      break;
    case Type::STRING_VIEW:
      copy->type = arrow::binary_view();
      break;
    case Type::LIST:
      copy->type = arrow::list(set_child(0, members));
      break;
    case Type::LARGE_LIST:
      copy->type = arrow::large_list(set_child(0, members));
      break;
    case Type::LIST_VIEW:
      copy->type = arrow::list_view(set_child(0, members));
      break;
    case Type::LARGE_LIST_VIEW:
      copy->type = arrow::large_list_view(set_child(0, members));
      break;
    case Type::FIXED_SIZE_LIST: {
      const int32_t size = static_cast<const arrow::FixedSizeListType&>(*copy->type).list_size();
      copy->type = arrow::fixed_size_list(set_child(0, members), size);
      break;
    }
    case Type::STRUCT:
      copy->type = arrow::struct_({set_child(static_cast<size_t>(members.front()), members.subspan(1))});
      break;
    case Type::DICTIONARY: {
      copy->dictionary = narrowed(data->dictionary, {});
      const auto& type = static_cast<const arrow::DictionaryType&>(*data->type);
      copy->type = arrow::dictionary(type.index_type(), copy->dictionary->type, type.ordered());
      break;
    }
    default:
      break;
  }
  return copy;
}

// One row, from the top of a narrowed column to its values.
class RowWalk {
 public:
  RowWalk(data::ColumnRow& row, std::vector<uint32_t>& ids) : row_(row), ids_(ids) {}

  void visit(const Array& array, int64_t i) {
    if (array.IsNull(i)) return note(Problem::kMissingKey, "is null");
    switch (array.type_id()) {
      case Type::BINARY:
        row_.texts.push_back(static_cast<const arrow::BinaryArray&>(array).GetView(i));
        return;
      case Type::LARGE_BINARY:
        row_.texts.push_back(static_cast<const arrow::LargeBinaryArray&>(array).GetView(i));
        return;
      case Type::BINARY_VIEW:
        row_.texts.push_back(static_cast<const arrow::BinaryViewArray&>(array).GetView(i));
        return;
      case Type::DICTIONARY: {
        const auto& dictionary = static_cast<const arrow::DictionaryArray&>(array);
        return visit(*dictionary.dictionary(), dictionary.GetValueIndex(i));
      }
      case Type::STRUCT:
        return visit(*static_cast<const arrow::StructArray&>(array).field(0), i);
      case Type::LIST:
        return visit_list<arrow::ListArray>(array, i);
      case Type::LARGE_LIST:
        return visit_list<arrow::LargeListArray>(array, i);
      case Type::FIXED_SIZE_LIST:
        return visit_list<arrow::FixedSizeListArray>(array, i);
      case Type::LIST_VIEW:
        return visit_list<arrow::ListViewArray>(array, i);
      case Type::LARGE_LIST_VIEW:
        return visit_list<arrow::LargeListViewArray>(array, i);
      default:
        return note(Problem::kWrongType, "is of type " + array.type()->ToString());
    }
  }

 private:
  // The first problem stands.
  void note(Problem problem, std::string why) {
    if (row_.problem != Problem::kNone) return;
    row_.problem = problem;
    row_.why = std::move(why);
  }

  template <typename List>
  void visit_list(const Array& array, int64_t i) {
    const auto& list = static_cast<const List&>(array);
    const int64_t begin = list.value_offset(i), end = begin + list.value_length(i);
    const Array& values = *list.values();
    if (arrow::is_integer(values.type_id())) return add_ids(values, begin, end);
    for (int64_t k = begin; k < end; ++k) visit(values, k);
  }

  void add_ids(const Array& values, int64_t begin, int64_t end) {
    for (int64_t k = begin; values.null_count() > 0 && k < end; ++k)
      if (values.IsNull(k)) return note(Problem::kWrongType, "has a null among its tokens");
    switch (values.type_id()) {
      case Type::INT8:
        return add<arrow::Int8Array>(values, begin, end);
      case Type::INT16:
        return add<arrow::Int16Array>(values, begin, end);
      case Type::INT32:
        return add<arrow::Int32Array>(values, begin, end);
      case Type::INT64:
        return add<arrow::Int64Array>(values, begin, end);
      case Type::UINT8:
        return add<arrow::UInt8Array>(values, begin, end);
      case Type::UINT16:
        return add<arrow::UInt16Array>(values, begin, end);
      case Type::UINT32:
        return add<arrow::UInt32Array>(values, begin, end);
      default:
        return add<arrow::UInt64Array>(values, begin, end);
    }
  }

  template <typename Values>
  void add(const Array& values, int64_t begin, int64_t end) {
    const auto* raw = static_cast<const Values&>(values).raw_values();
    ids_.reserve(ids_.size() + static_cast<size_t>(end - begin));
    for (int64_t k = begin; k < end; ++k) {
      if (!std::in_range<uint32_t>(raw[k]))
        return note(Problem::kWrongType, "has " + std::to_string(raw[k]) + " among its tokens, which is no id");
      ids_.push_back(static_cast<uint32_t>(raw[k]));
    }
  }

  data::ColumnRow& row_;
  std::vector<uint32_t>& ids_;
};

}  // namespace

bool find_wanted(const arrow::Schema& schema, const std::vector<std::string>& keys, WantedColumns& wanted,
                 data::ColumnFailure& failure) {
  wanted = {};
  for (const std::string& key : keys) {
    std::vector<int> way;
    const auto type = find(schema.fields(), key, way);
    if (type == nullptr) {
      failure = {false, "has no column \"" + key + "\"", "its columns are " + list_of_columns(schema),
                 "name the one that holds text or token ids with --text-key"};
      return false;
    }
    const Kind kind = kind_of(type);
    if (kind == Kind::kNeither) {
      failure = {false, "has no text in column \"" + key + "\"",
                 "it is " + type->ToString() + ", neither strings nor lists of token ids",
                 "name another one with --text-key: there are " + list_of_columns(schema)};
      return false;
    }
    if (kind == Kind::kIds && keys.size() > 1) {
      failure = {false, "has token ids in column \"" + key + "\"", "only texts can be joined", "give one --text-key"};
      return false;
    }
    wanted.ids = kind == Kind::kIds;
    wanted.columns.push_back({way.front(), {way.begin() + 1, way.end()}});
  }
  return true;
}

void BatchRows::clear() {
  arrays_.clear();
  num_rows_ = 0;
}

arrow::Status BatchRows::set_batch(const arrow::RecordBatch& batch) {
  clear();
  for (const WantedColumn& wanted : wanted_.columns) {
    arrays_.push_back(arrow::MakeArray(narrowed(batch.column_data(wanted.column), wanted.members)));
    ARROW_RETURN_NOT_OK(arrays_.back()->ValidateFull());
    if (arrays_.back()->length() != batch.num_rows()) return arrow::Status::Invalid("columns differ in length");
  }
  num_rows_ = batch.num_rows();
  return arrow::Status::OK();
}

void BatchRows::read(int64_t i, data::ColumnRow& row) {
  row.texts.clear();
  row.problem = Problem::kNone;
  row.why.clear();
  ids_.clear();
  RowWalk walk(row, ids_);
  for (const auto& array : arrays_) walk.visit(*array, i);
  row.ids = ids_;
}

}  // namespace hearth::columnar
