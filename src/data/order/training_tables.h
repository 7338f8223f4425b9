// The tables that a source of a training needs, in its dataset's folder: DATASET/tables/. Missing or damaged tables are
// made. A table that cannot be saved is only held in memory.
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "data/order/window_table.h"
#include "data/shard/dataset.h"

namespace hearth::data {

struct TrainingTable {
  std::shared_ptr<const WindowTable> windows;
  std::string note;  // how the table was made, for people
};

// data.order = "neox" (data/order/neox_order.h). Throws user_error if a dataset or a run is too large for the table.
TrainingTable neox_table(const Dataset& dataset, int64_t seq_len, uint64_t samples, uint32_t seed);
// data.packing = "best_fit" (data/order/best_fit.h).
TrainingTable best_fit_table(const Dataset& dataset, int64_t seq_len, int64_t threads);

}  // namespace hearth::data
