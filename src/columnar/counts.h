// SPDX-License-Identifier: Apache-2.0
// The counts of a recording in a row. Errors are in row.problem and row.why. The column is a checked array, perhaps
// inside structs of one member.
#pragma once

#include <arrow/array.h>

#include <cstdint>
#include <vector>

#include "data/formats/arrow_library.h"

namespace hearth::columnar {

// Reads row `i` of a column of lists of neurons, each a list of counts, like Array2D of `datasets`: into row.shape and
// row.counts, a view of `counts`.
void read_counts(const arrow::Array& column, int64_t i, int64_t most_cells, data::ColumnRow& row,
                 std::vector<uint8_t>& counts);

}  // namespace hearth::columnar
