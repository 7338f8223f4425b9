// SPDX-License-Identifier: Apache-2.0
#include "columnar/wanted.h"

#include <arrow/array.h>

#include <algorithm>
#include <optional>
#include <span>
#include <utility>

#include "columnar/counts.h"
#include "columnar/lists.h"
#include "columnar/numbers.h"

namespace hearth::columnar {
namespace {

using arrow::Array;
using arrow::ArrayData;
using arrow::DataType;
using arrow::Type;
using data::ColumnFailure;
using data::ColumnKind;
using data::RecordProblem;

bool is_any_text(Type::type id) {
  return id == Type::STRING || id == Type::LARGE_STRING || id == Type::STRING_VIEW || id == Type::BINARY ||
         id == Type::LARGE_BINARY || id == Type::BINARY_VIEW || id == Type::NA;
}

// The place in a schema that a key names.
struct Found {
  std::shared_ptr<DataType> type;  // null: no such place
  std::vector<int> way;
  int num_lists = 0;   // lists that the key passes through
  int64_t equals = 1;  // fields of the same name at one step of the way
};

int64_t count_named(const arrow::FieldVector& fields, std::string_view name) {
  return std::ranges::count(fields, name, &arrow::Field::name);
}

std::shared_ptr<DataType> find(const arrow::FieldVector& fields, std::string_view key, Found& found) {
  for (size_t i = 0; i < fields.size(); ++i) {
    if (fields[i]->name() != key) continue;
    found.equals = std::max(found.equals, count_named(fields, key));
    found.way.push_back(static_cast<int>(i));
    return fields[i]->type();
  }
  for (size_t i = 0; i < fields.size(); ++i) {
    const std::string& name = fields[i]->name();
    if (key.size() <= name.size() || !key.starts_with(name) || key[name.size()] != '.') continue;
    int num_lists = 0;
    const auto inner = without_lists(fields[i]->type(), num_lists);
    if (inner->id() != Type::STRUCT) continue;
    const Found before = found;
    found.equals = std::max(found.equals, count_named(fields, name));
    found.way.push_back(static_cast<int>(i));
    found.num_lists += num_lists;
    if (auto type = find(inner->fields(), key.substr(name.size() + 1), found)) return type;
    found = before;
  }
  return nullptr;
}

bool is_text(const DataType& type) {
  return type.id() == Type::DICTIONARY ? is_any_text(static_cast<const arrow::DictionaryType&>(type).value_type()->id())
                                       : is_any_text(type.id());
}

std::optional<ColumnKind> kind_of(const Found& found) {
  int num_lists = 0;
  const auto inner = without_lists(found.type, num_lists);
  if (is_text(*inner)) return ColumnKind::kText;
  if (!arrow::is_integer(inner->id())) return {};
  if (num_lists == 2 && found.num_lists == 0) return ColumnKind::kArrays;
  return num_lists == 1 ? std::optional(ColumnKind::kIds) : std::nullopt;
}

std::string list_of_columns(const arrow::Schema& schema) {
  constexpr int kMostNamed = 20;
  std::string text;
  for (int i = 0; i < schema.num_fields() && i < kMostNamed; ++i)
    text += (i == 0 ? "" : ", ") + schema.field(i)->name() + " (" + schema.field(i)->type()->ToString() + ")";
  return text + (schema.num_fields() > kMostNamed ? ", ..." : "");
}

// Which of several columns is meant is not for us to guess.
void require_one(const Found& found, const std::string& key) {
  if (found.equals > 1)
    throw ColumnFailure{false, "has " + std::to_string(found.equals) + " columns \"" + key + "\"",
                        "columns of one name cannot be told apart",
                        "write the table again with a name for each column"};
}

Found find_one(const arrow::Schema& schema, const std::string& key, std::string fix) {
  Found found;
  found.type = find(schema.fields(), key, found);
  if (found.type == nullptr)
    throw ColumnFailure{false, "has no column \"" + key + "\"", "its columns are " + list_of_columns(schema),
                        std::move(fix)};
  require_one(found, key);
  return found;
}

// Adds a column, and returns its index.
size_t add(const Found& found, WantedColumns& wanted) {
  wanted.columns.push_back({found.way.front(), {found.way.begin() + 1, found.way.end()}});
  return wanted.columns.size() - 1;
}

// Finds the columns of the keys of texts, ids or arrays.
void find_keys(const arrow::Schema& schema, const std::vector<std::string>& keys, WantedColumns& wanted) {
  for (const std::string& key : keys) {
    const Found found =
        find_one(schema, key, "name the one that holds text, token ids or arrays of counts with --text-key");
    const auto kind = kind_of(found);
    if (!kind)
      throw ColumnFailure{false, "has no text in column \"" + key + "\"",
                          (found.num_lists > 0 ? "inside of a list it is " : "it is ") + found.type->ToString() +
                              ", neither strings nor lists of token ids nor lists of lists of counts",
                          "name another one with --text-key: there are " + list_of_columns(schema)};
    if (*kind != ColumnKind::kText && keys.size() > 1)
      throw ColumnFailure{
          false, std::string(*kind == ColumnKind::kIds ? "has token ids" : "has arrays") + " in column \"" + key + "\"",
          "only texts can be joined", "give one --text-key"};
    wanted.kind = *kind;
    add(found, wanted);
  }
  wanted.num_keys = keys.size();
}

// Finds the columns of the arrays' labels, if there are any.
void find_labels(const arrow::Schema& schema, WantedColumns& wanted) {
  for (size_t label = 0; label < recordings::kLabelNames.size(); ++label) {
    const std::string name(recordings::kLabelNames[label]);
    const auto& fields = schema.fields();
    const auto field = std::ranges::find(fields, name, &arrow::Field::name);
    if (field == fields.end()) continue;
    const Found found{(*field)->type(), {static_cast<int>(field - fields.begin())}, 0, count_named(fields, name)};
    require_one(found, name);
    const auto type = without_extension(found.type);
    if (!is_text(*type) && !arrow::is_integer(type->id()))
      throw ColumnFailure{false, "has no text in column \"" + name + "\"",
                          "it is " + found.type->ToString() + ", and says what an array is a recording of",
                          "write it as strings, or leave the column out"};
    wanted.labels[label] = add(found, wanted);
  }
}

// Finds the column of a key of labels or weights: a column of lists for ids, of single numbers for texts. Returns its
// index; 0: there is no key.
size_t find_weight_column(const arrow::Schema& schema, const std::string& option, const std::string& key,
                          WantedColumns& wanted) {
  if (key.empty()) return 0;
  const Found found = find_one(schema, key, "name another one with " + option);
  int num_lists = found.num_lists;
  const auto inner = without_lists(found.type, num_lists);
  const bool of_ids = wanted.kind == ColumnKind::kIds, integers = option == "--labels-key";
  if (num_lists == (of_ids ? 1 : 0) && found.num_lists == 0 &&
      (integers ? arrow::is_integer(inner->id()) : is_number(inner->id())))
    return add(found, wanted);
  throw ColumnFailure{false, std::string("has no ") + (integers ? "labels" : "weights") + " in column \"" + key + "\"",
                      "it is " + found.type->ToString() + ", not " +
                          (integers ? "lists of integers"
                           : of_ids ? "lists of numbers or truth values"
                                    : "a number a row"),
                      "name another one with " + option + ": there are " + list_of_columns(schema)};
}

void find_weights(const arrow::Schema& schema, const data::ReadRules& rules, WantedColumns& wanted) {
  const auto refuse = [&](const char* option, const char* why, const char* fix) {
    throw ColumnFailure{false, "has nothing that " + std::string(option) + " could weigh", why, fix};
  };
  if (wanted.kind == ColumnKind::kArrays && !(rules.labels_key.empty() && rules.weights_key.empty()))
    refuse(rules.labels_key.empty() ? "--weights-key" : "--labels-key", "its column is one of arrays", "leave it out");
  if (wanted.kind == ColumnKind::kText && !rules.labels_key.empty())
    refuse("--labels-key", "its column is text; only token ids have labels",
           "name the texts that count with --loss-key, or a column of token ids with --text-key");
  if (wanted.kind != ColumnKind::kText && !rules.loss_keys.empty())
    refuse("--loss-key", "its column is not text", "give --labels-key or --weights-key for token ids");
  wanted.label_mask = find_weight_column(schema, "--labels-key", rules.labels_key, wanted);
  wanted.weights = find_weight_column(schema, "--weights-key", rules.weights_key, wanted);
}

std::string_view bytes_at(const Array& array, int64_t i) {
  switch (array.type_id()) {
    case Type::BINARY:
      return static_cast<const arrow::BinaryArray&>(array).GetView(i);
    case Type::LARGE_BINARY:
      return static_cast<const arrow::LargeBinaryArray&>(array).GetView(i);
    default:
      return static_cast<const arrow::BinaryViewArray&>(array).GetView(i);
  }
}

// The text in row i of a narrowed column of strings or integers; empty if it is null.
std::string text_at(const Array& array, int64_t i) {
  if (array.IsNull(i)) return {};
  if (array.type_id() == Type::DICTIONARY) {
    const auto& dictionary = static_cast<const arrow::DictionaryArray&>(array);
    return text_at(*dictionary.dictionary(), dictionary.GetValueIndex(i));
  }
  if (arrow::is_integer(array.type_id()))
    return with_integers(array, [&](const auto* values) { return std::to_string(values[i]); });
  return std::string(bytes_at(array, i));
}

// `data` with strings as bytes, which need not be valid UTF-8, and structs with only the members of the key.
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

// Walks one row from the top of a narrowed column to its values.
class RowWalk {
 public:
  RowWalk(data::ColumnRow& row, std::vector<uint32_t>& ids) : row_(row), ids_(ids) {}

  void visit(const Array& array, int64_t i) {
    if (array.IsNull(i)) return note(RecordProblem::kMissingKey, "is null");
    switch (array.type_id()) {
      case Type::BINARY:
      case Type::LARGE_BINARY:
      case Type::BINARY_VIEW:
        row_.texts.push_back(bytes_at(array, i));
        return;
      case Type::DICTIONARY: {
        const auto& dictionary = static_cast<const arrow::DictionaryArray&>(array);
        return visit(*dictionary.dictionary(), dictionary.GetValueIndex(i));
      }
      case Type::STRUCT:
        return visit(*static_cast<const arrow::StructArray&>(array).field(0), i);
      case Type::LIST:
      case Type::LARGE_LIST:
      case Type::FIXED_SIZE_LIST:
      case Type::LIST_VIEW:
      case Type::LARGE_LIST_VIEW:
        return visit_list(elements_of(array, i));
      default:
        return note(RecordProblem::kWrongType, "is of type " + array.type()->ToString());
    }
  }

 private:
  // The first problem is kept.
  void note(RecordProblem problem, std::string why) {
    if (row_.problem == RecordProblem::kNone) row_.fail(problem, std::move(why));
  }

  void visit_list(const Elements& list) {
    if (arrow::is_integer(list.values.type_id())) return add_ids(list);
    for (int64_t k = list.begin; k < list.end; ++k) visit(list.values, k);
  }

  void add_ids(const Elements& list) {
    if (first_null(list) >= 0) return note(RecordProblem::kWrongType, "has a null among its tokens");
    with_integers(list.values, [&](const auto* raw) {
      ids_.reserve(ids_.size() + static_cast<size_t>(list.size()));
      for (int64_t k = list.begin; k < list.end; ++k) {
        if (!std::in_range<uint32_t>(raw[k]))
          return note(RecordProblem::kWrongType,
                      "has " + std::to_string(raw[k]) + " among its tokens, which is not an id");
        ids_.push_back(static_cast<uint32_t>(raw[k]));
      }
    });
  }

  data::ColumnRow& row_;
  std::vector<uint32_t>& ids_;
};

}  // namespace

bool find_wanted(const arrow::Schema& schema, const data::ReadRules& rules, WantedColumns& wanted,
                 ColumnFailure& failure) {
  wanted = {};
  try {
    find_keys(schema, rules.text_keys, wanted);
    find_weights(schema, rules, wanted);
    if (wanted.kind == ColumnKind::kArrays) find_labels(schema, wanted);
  } catch (const ColumnFailure& found) {
    failure = found;
    return false;
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
  row.weights = {};
  row.problem = RecordProblem::kNone;
  row.why.clear();
  ids_.clear();
  RowWalk walk(row, ids_);
  if (wanted_.kind == ColumnKind::kArrays) {
    for (size_t label = 0; label < wanted_.labels.size(); ++label)
      row.labels[label] = wanted_.labels[label] == 0 ? "" : text_at(*arrays_[wanted_.labels[label]], i);
    return read_counts(*arrays_[0], i, most_cells_, row, counts_);
  }
  row.text_ends.clear();
  for (size_t key = 0; key < wanted_.num_keys; ++key) {
    walk.visit(*arrays_[key], i);
    row.text_ends.push_back(row.texts.size());
  }
  row.ids = ids_;
  if (row.problem == RecordProblem::kNone) read_row_weights(i, row);
}

void BatchRows::read_row_weights(int64_t i, data::ColumnRow& row) {
  weights_.clear();
  if (wanted_.label_mask > 0) read_label_mask(*arrays_[wanted_.label_mask], i, rules_->labels_key, row, weights_);
  if (wanted_.weights > 0 && row.problem == RecordProblem::kNone)
    read_weights(*arrays_[wanted_.weights], i, rules_->weights_key, wanted_.kind == ColumnKind::kIds, row, weights_);
  row.weights = weights_;
}

}  // namespace hearth::columnar
