// SPDX-License-Identifier: Apache-2.0
#include "columnar/numbers.h"

#include <optional>
#include <utility>

#include "columnar/lists.h"

namespace hearth::columnar {
namespace {

using arrow::Array;
using arrow::Type;
using data::RecordProblem;

std::string quoted(const std::string& key) { return "\"" + key + "\""; }

// The array of the value inside the structs at row `i`; null if it is missing, with the problem in `row`.
const Array* inside(const Array& column, int64_t i, const std::string& key, data::ColumnRow& row) {
  const Array& array = inside_structs(column, i);
  if (array.IsValid(i)) return &array;
  row.fail(RecordProblem::kMissingKey, "has no " + quoted(key) + ": it is null");
  return nullptr;
}

// The list at row `i`: as long as the row's ids, without a null. Otherwise empty, with the problem in `row`.
std::optional<Elements> list_of(const Array& column, int64_t i, const std::string& key, data::ColumnRow& row) {
  const Array* lists = inside(column, i, key, row);
  if (lists == nullptr) return {};
  const Elements list = elements_of(*lists, i);
  if (list.size() != std::ssize(row.ids))
    row.fail(RecordProblem::kWrongType, "has " + std::to_string(list.size()) + " numbers in " + quoted(key) + " for " +
                                            std::to_string(row.ids.size()) + " tokens");
  else if (const int64_t null = first_null(list); null >= 0)
    row.fail(RecordProblem::kWrongType, "has a null in " + quoted(key) + " at " + std::to_string(null));
  else
    return list;
  return {};
}

double number_at(const Array& array, int64_t k) {
  switch (array.type_id()) {
    case Type::BOOL:
      return static_cast<const arrow::BooleanArray&>(array).Value(k) ? 1 : 0;
    case Type::FLOAT:
      return static_cast<double>(static_cast<const arrow::FloatArray&>(array).Value(k));
    case Type::DOUBLE:
      return static_cast<const arrow::DoubleArray&>(array).Value(k);
    default:
      return with_integers(array, [&](const auto* values) { return static_cast<double>(values[k]); });
  }
}

}  // namespace

bool is_number(Type::type id) {
  return arrow::is_integer(id) || id == Type::FLOAT || id == Type::DOUBLE || id == Type::BOOL;
}

void read_label_mask(const Array& column, int64_t i, const std::string& key, data::ColumnRow& row,
                     std::vector<float>& weights) {
  const auto list = list_of(column, i, key, row);
  if (!list) return;
  weights.reserve(row.ids.size());
  with_integers(list->values, [&](const auto* labels) {
    for (size_t t = 0; t < row.ids.size(); ++t) {
      const auto label = labels[list->begin + static_cast<int64_t>(t)];
      const bool counts = std::cmp_equal(label, row.ids[t]);
      if (!counts && !std::cmp_equal(label, data::kIgnore))
        return row.fail(RecordProblem::kWrongType, "has the label " + std::to_string(label) + " at " +
                                                       std::to_string(t) + ", neither the token's id " +
                                                       std::to_string(row.ids[t]) + " nor " +
                                                       std::to_string(data::kIgnore));
      weights.push_back(counts ? 1 : 0);
    }
  });
}

void read_weights(const Array& column, int64_t i, const std::string& key, bool of_ids, data::ColumnRow& row,
                  std::vector<float>& weights) {
  const auto list = of_ids ? list_of(column, i, key, row) : std::nullopt;
  const Array* numbers = list ? &list->values : of_ids ? nullptr : inside(column, i, key, row);
  if (numbers == nullptr) return;
  const int64_t first = list ? list->begin : i, count = list ? list->size() : 1;
  weights.resize(static_cast<size_t>(count), 1.0F);
  for (int64_t k = 0; k < count; ++k) {
    const double weight = number_at(*numbers, first + k);
    if (!data::is_weight(weight))
      return row.fail(RecordProblem::kWrongType, "has the weight " + std::to_string(weight) + " in " + quoted(key) +
                                                     (of_ids ? " at " + std::to_string(k) : "") +
                                                     ": weights are finite and not negative");
    weights[static_cast<size_t>(k)] *= static_cast<float>(weight);
  }
}

}  // namespace hearth::columnar
