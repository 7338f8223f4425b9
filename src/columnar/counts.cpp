#include "columnar/counts.h"

#include <utility>

#include "columnar/lists.h"

namespace hearth::columnar {
namespace {

using data::RecordProblem;

void fail(data::ColumnRow& row, RecordProblem problem, std::string why) {
  row.problem = problem;
  row.why = std::move(why);
}

std::string of_neuron(int64_t neuron) { return "neuron " + std::to_string(neuron) + " "; }

// False if an element is not a count; `row` then has the problem.
bool append(const Elements& bins, int64_t neuron, data::ColumnRow& row, std::vector<uint8_t>& counts) {
  const auto place = [&](int64_t k) { return " in time bin " + std::to_string(k - bins.begin); };
  for (int64_t k = bins.begin; bins.values.null_count() > 0 && k < bins.end; ++k) {
    if (bins.values.IsValid(k)) continue;
    fail(row, RecordProblem::kWrongType, of_neuron(neuron) + "has a null" + place(k));
    return false;
  }
  with_integers(bins.values, [&](const auto* raw) {
    for (int64_t k = bins.begin; k < bins.end; ++k) {
      if (!std::in_range<uint8_t>(raw[k])) {
        fail(row, RecordProblem::kWrongType,
             of_neuron(neuron) + "has " + std::to_string(raw[k]) + place(k) + ", and counts are 0 to 255");
        return;
      }
      counts.push_back(static_cast<uint8_t>(raw[k]));
    }
  });
  return row.problem == RecordProblem::kNone;
}

}  // namespace

void read_counts(const arrow::Array& column, int64_t i, int64_t most_cells, data::ColumnRow& row,
                 std::vector<uint8_t>& counts) {
  counts.clear();
  row.shape = {};
  const arrow::Array* arrays = &column;
  for (; arrays->IsValid(i) && arrays->type_id() == arrow::Type::STRUCT;)
    arrays = static_cast<const arrow::StructArray&>(*arrays).field(0).get();
  if (arrays->IsNull(i)) return fail(row, RecordProblem::kMissingKey, "is null");

  // Sizes are checked before elements are read: views may show the same neuron any number of times.
  const Elements neurons = elements_of(*arrays, i);
  data::ArrayShape shape{neurons.size(), 0};
  for (int64_t n = 0; n < shape.neurons; ++n) {
    if (neurons.values.IsNull(neurons.begin + n)) return fail(row, RecordProblem::kWrongType, of_neuron(n) + "is null");
    const int64_t bins = elements_of(neurons.values, neurons.begin + n).size();
    if (n == 0) shape.bins = bins;
    if (std::max<int64_t>(shape.bins, 1) > most_cells / shape.neurons)
      return fail(row, RecordProblem::kTooLong,
                  "it has more than " + std::to_string(most_cells) + " bytes (--max-record-bytes)");
    if (bins != shape.bins)
      return fail(
          row, RecordProblem::kWrongType,
          of_neuron(n) + "has " + std::to_string(bins) + " time bins, and neuron 0 has " + std::to_string(shape.bins));
  }
  counts.reserve(static_cast<size_t>(shape.cells()));
  for (int64_t n = 0; n < shape.neurons; ++n)
    if (!append(elements_of(neurons.values, neurons.begin + n), n, row, counts)) return;
  row.shape = shape;
  row.counts = counts;
}

}  // namespace hearth::columnar
