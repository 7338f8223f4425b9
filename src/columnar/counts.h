// A row of a column of 2-D arrays: lists of neurons, each a list of counts, like Array2D of `datasets`.
#pragma once

#include <arrow/array.h>

#include <vector>

#include "data/formats/arrow_library.h"

namespace hearth::columnar {

// Reads row `i` of a checked array of lists of lists of integers (perhaps inside structs of one member) into row.shape
// and row.counts, a view of `counts`. Errors are in row.problem and row.why.
void read_counts(const arrow::Array& column, int64_t i, int64_t most_cells, data::ColumnRow& row,
                 std::vector<uint8_t>& counts);

}  // namespace hearth::columnar
