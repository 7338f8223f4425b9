#include "columnar/wanted.h"

#include <arrow/array.h>

#include <algorithm>
#include <optional>
#include <span>
#include <utility>

#include "columnar/counts.h"
#include "columnar/lists.h"
#include "columnar/weights.h"

namespace hearth::columnar {
namespace {

using arrow::Array;
using arrow::ArrayData;
using arrow::DataType;
using arrow::Type;
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
  return std::count_if(fields.begin(), fields.end(), [&](const auto& field) { return field->name() == name; });
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

// Which of several columns is meant is not for us to guess.
bool is_one(const Found& found, const std::string& key, data::ColumnFailure& failure) {
  if (found.equals == 1) return true;
  failure = {false, "has " + std::to_string(found.equals) + " columns \"" + key + "\"",
             "columns of one name cannot be told apart", "write the table again with a name for each column"};
  return false;
}

std::string list_of_columns(const arrow::Schema& schema) {
  constexpr int kMostNamed = 20;
  std::string text;
  for (int i = 0; i < schema.num_fields() && i < kMostNamed; ++i)
    text += (i == 0 ? "" : ", ") + schema.field(i)->name() + " (" + schema.field(i)->type()->ToString() + ")";
  return text + (schema.num_fields() > kMostNamed ? ", ..." : "");
}

// Finds the columns of the arrays' labels, if there are any.
bool find_labels(const arrow::Schema& schema, WantedColumns& wanted, data::ColumnFailure& failure) {
  for (size_t label = 0; label < data::kLabelNames.size(); ++label) {
    const std::string name(data::kLabelNames[label]);
    const auto& fields = schema.fields();
    const auto field = std::find_if(fields.begin(), fields.end(), [&](const auto& f) { return f->name() == name; });
    if (field == fields.end()) continue;
    Found found;
    found.equals = count_named(fields, name);
    if (!is_one(found, name, failure)) return false;
    const auto type = without_extension((*field)->type());
    if (!is_text(*type) && !arrow::is_integer(type->id())) {
      failure = {false, "has no text in column \"" + name + "\"",
                 "it is " + (*field)->type()->ToString() + ", and says what an array is a recording of",
                 "write it as strings, or leave the column out"};
      return false;
    }
    wanted.labels[label] = wanted.columns.size();
    wanted.columns.push_back({static_cast<int>(field - fields.begin()), {}});
  }
  return true;
}

// Finds the column of a key of labels or weights: a column of lists for ids, of single numbers for texts.
bool find_weight_column(const arrow::Schema& schema, const char* option, const std::string& key, ColumnKind kind,
                        size_t& place, WantedColumns& wanted, data::ColumnFailure& failure) {
  if (key.empty()) return true;
  Found found;
  found.type = find(schema.fields(), key, found);
  if (found.type == nullptr) {
    failure = {false, "has no column \"" + key + "\"", "its columns are " + list_of_columns(schema),
               std::string("name another one with ") + option};
    return false;
  }
  if (!is_one(found, key, failure)) return false;
  int num_lists = found.num_lists;
  const auto inner = without_lists(found.type, num_lists);
  const bool of_ids = kind == ColumnKind::kIds, integers = std::string_view(option) == "--labels-key";
  if (num_lists == (of_ids ? 1 : 0) && found.num_lists == 0 &&
      (integers ? arrow::is_integer(inner->id()) : is_number(inner->id()))) {
    place = wanted.columns.size();
    wanted.columns.push_back({found.way.front(), {found.way.begin() + 1, found.way.end()}});
    return true;
  }
  failure = {false, std::string("has no ") + (integers ? "labels" : "weights") + " in column \"" + key + "\"",
             "it is " + found.type->ToString() + ", not " +
                 (integers ? "lists of integers"
                  : of_ids ? "lists of numbers or truth values"
                           : "a number a row"),
             std::string("name another one with ") + option + ": there are " + list_of_columns(schema)};
  return false;
}

bool find_weights(const arrow::Schema& schema, const data::ReadRules& rules, WantedColumns& wanted,
                  data::ColumnFailure& failure) {
  const auto refuse = [&](const char* option, const char* why, const char* fix) {
    failure = {false, "has nothing that " + std::string(option) + " could weigh", why, fix};
    return false;
  };
  if (wanted.kind == ColumnKind::kArrays && !(rules.labels_key.empty() && rules.weights_key.empty()))
    return refuse(rules.labels_key.empty() ? "--weights-key" : "--labels-key", "its column is one of arrays",
                  "leave it out");
  if (wanted.kind == ColumnKind::kText && !rules.labels_key.empty())
    return refuse("--labels-key", "its column is text; only token ids have labels",
                  "name the texts that count with --loss-key, or a column of token ids with --text-key");
  if (wanted.kind != ColumnKind::kText && !rules.loss_keys.empty())
    return refuse("--loss-key", "its column is not text", "give --labels-key or --weights-key for token ids");
  return find_weight_column(schema, "--labels-key", rules.labels_key, wanted.kind, wanted.label_mask, wanted,
                            failure) &&
         find_weight_column(schema, "--weights-key", rules.weights_key, wanted.kind, wanted.weights, wanted, failure);
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
  if (arrow::is_integer(array.type_id())) {
    std::string text;
    with_integers(array, [&](const auto* values) { text = std::to_string(values[i]); });
    return text;
  }
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
    if (row_.problem != RecordProblem::kNone) return;
    row_.problem = problem;
    row_.why = std::move(why);
  }

  void visit_list(const Elements& list) {
    if (arrow::is_integer(list.values.type_id())) return add_ids(list);
    for (int64_t k = list.begin; k < list.end; ++k) visit(list.values, k);
  }

  void add_ids(const Elements& list) {
    for (int64_t k = list.begin; list.values.null_count() > 0 && k < list.end; ++k)
      if (list.values.IsNull(k)) return note(RecordProblem::kWrongType, "has a null among its tokens");
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
                 data::ColumnFailure& failure) {
  const std::vector<std::string>& keys = rules.text_keys;
  wanted = {};
  for (const std::string& key : keys) {
    Found found;
    found.type = find(schema.fields(), key, found);
    if (found.type == nullptr) {
      failure = {false, "has no column \"" + key + "\"", "its columns are " + list_of_columns(schema),
                 "name the one that holds text, token ids or arrays of counts with --text-key"};
      return false;
    }
    if (!is_one(found, key, failure)) return false;
    const auto kind = kind_of(found);
    if (!kind) {
      failure = {false, "has no text in column \"" + key + "\"",
                 (found.num_lists > 0 ? "inside of a list it is " : "it is ") + found.type->ToString() +
                     ", neither strings nor lists of token ids nor lists of lists of counts",
                 "name another one with --text-key: there are " + list_of_columns(schema)};
      return false;
    }
    if (*kind != ColumnKind::kText && keys.size() > 1) {
      failure = {false,
                 std::string(*kind == ColumnKind::kIds ? "has token ids" : "has arrays") + " in column \"" + key + "\"",
                 "only texts can be joined", "give one --text-key"};
      return false;
    }
    wanted.kind = *kind;
    wanted.columns.push_back({found.way.front(), {found.way.begin() + 1, found.way.end()}});
  }
  wanted.num_keys = keys.size();
  if (!find_weights(schema, rules, wanted, failure)) return false;
  return wanted.kind != ColumnKind::kArrays || find_labels(schema, wanted, failure);
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
