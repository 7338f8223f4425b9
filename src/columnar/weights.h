// What the tokens of a row weigh as labels, from a column beside them: labels as Hugging Face's models take them, or
// weights themselves.
#pragma once

#include <arrow/array.h>

#include <string>
#include <vector>

#include "data/formats/arrow_library.h"

namespace hearth::columnar {

// Integers, floating-point numbers of 32 and 64 bits, and truth values.
bool is_number(arrow::Type::type id);

// Row `i` of a checked array of lists of integers (perhaps inside structs of one member): for each of row.ids the id
// itself, which weighs 1, or data::kIgnore, which weighs 0. Fills `weights`; or what is wrong into row.problem and why.
void read_label_mask(const arrow::Array& column, int64_t i, const std::string& key, data::ColumnRow& row,
                     std::vector<float>& weights);

// The same of numbers: a list with one for each of row.ids, or (`of_ids` false) one for all texts. Where `weights`
// holds some already they are multiplied with.
void read_weights(const arrow::Array& column, int64_t i, const std::string& key, bool of_ids, data::ColumnRow& row,
                  std::vector<float>& weights);

}  // namespace hearth::columnar
