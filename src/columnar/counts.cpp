// SPDX-License-Identifier: Apache-2.0
#include "columnar/counts.h"

#include <utility>

#include "columnar/lists.h"

namespace hearth::columnar {
namespace {

using arrow::Array;
using data::RecordProblem;

std::string of_neuron(int64_t neuron) { return "neuron " + std::to_string(neuron) + " "; }

// False if an element is not a count; `row` then has the problem.
bool append(const Elements& bins, int64_t neuron, data::ColumnRow& row, std::vector<uint8_t>& counts) {
  const auto fail = [&](const std::string& what, int64_t bin, const char* why) {
    row.fail(RecordProblem::kWrongType,
             of_neuron(neuron) + "has " + what + " in time bin " + std::to_string(bin) + why);
    return false;
  };
  if (const int64_t null = first_null(bins); null >= 0) return fail("a null", null, "");
  return with_integers(bins.values, [&](const auto* raw) {
    for (int64_t k = bins.begin; k < bins.end; ++k) {
      if (!std::in_range<uint8_t>(raw[k]))
        return fail(std::to_string(raw[k]), k - bins.begin, ", and counts are 0 to 255");
      counts.push_back(static_cast<uint8_t>(raw[k]));
    }
    return true;
  });
}

}  // namespace

void read_counts(const Array& column, int64_t i, int64_t most_cells, data::ColumnRow& row,
                 std::vector<uint8_t>& counts) {
  counts.clear();
  row.shape = {};
  const Array& arrays = inside_structs(column, i);
  if (arrays.IsNull(i)) return row.fail(RecordProblem::kMissingKey, "is null");

  // Sizes are checked before elements are read: views may show the same neuron any number of times.
  const Elements neurons = elements_of(arrays, i);
  recordings::ArrayShape shape{neurons.size(), 0};
  for (int64_t n = 0; n < shape.neurons; ++n) {
    if (neurons.values.IsNull(neurons.begin + n)) return row.fail(RecordProblem::kWrongType, of_neuron(n) + "is null");
    const int64_t bins = elements_of(neurons.values, neurons.begin + n).size();
    if (n == 0) shape.bins = bins;
    if (std::max<int64_t>(shape.bins, 1) > most_cells / shape.neurons)
      return row.fail(RecordProblem::kTooLong,
                      "it has more than " + std::to_string(most_cells) + " bytes (--max-record-bytes)");
    if (bins != shape.bins)
      return row.fail(RecordProblem::kWrongType, of_neuron(n) + "has " + std::to_string(bins) +
                                                     " time bins, and neuron 0 has " + std::to_string(shape.bins));
  }
  counts.reserve(static_cast<size_t>(shape.cells()));
  for (int64_t n = 0; n < shape.neurons; ++n)
    if (!append(elements_of(neurons.values, neurons.begin + n), n, row, counts)) return;
  row.shape = shape;
  row.counts = counts;
}

}  // namespace hearth::columnar
