// A row of a column of 2-D arrays: lists of neurons, each a list of counts, as Array2D of `datasets` stores them.
#pragma once

#include <arrow/array.h>

#include <vector>

#include "data/formats/arrow_library.h"

namespace hearth::columnar {

// Row `i` of a checked array of lists of lists of integers (perhaps inside structs of one member), into row.shape and
// row.counts, which is a view of `counts`; or what is wrong with it into row.problem and row.why.
void read_counts(const arrow::Array& column, int64_t i, int64_t most_cells, data::ColumnRow& row,
                 std::vector<uint8_t>& counts);

}  // namespace hearth::columnar
