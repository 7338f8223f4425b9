// SPDX-License-Identifier: Apache-2.0
// The numbers of a row: weights of its tokens, as labels or weights from other columns. Errors are in row.problem and
// row.why. Each column is a checked array, perhaps inside structs of one member.
#pragma once

#include <arrow/array.h>

#include <string>
#include <vector>

#include "data/formats/arrow_library.h"

namespace hearth::columnar {

// Integers, floating-point numbers of 32 and 64 bits, and booleans.
bool is_number(arrow::Type::type id);

// Row `i` of a column of lists of integers: labels as Hugging Face's models take them. Each of row.ids has its own id,
// with weight 1, or data::kIgnore, with weight 0. Fills `weights`.
void read_label_mask(const arrow::Array& column, int64_t i, const std::string& key, data::ColumnRow& row,
                     std::vector<float>& weights);

// The same for numbers: a list with one for each of row.ids, or (`of_ids` false) one number per text. Existing
// `weights` are multiplied with them.
void read_weights(const arrow::Array& column, int64_t i, const std::string& key, bool of_ids, data::ColumnRow& row,
                  std::vector<float>& weights);

}  // namespace hearth::columnar
