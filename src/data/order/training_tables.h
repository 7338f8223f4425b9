// The tables that a source of a training needs, as they lie beside its dataset: DATASET/tables/. They are made where
// they are missing or damaged, and only held in memory where they cannot be kept.
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "data/order/window_table.h"
#include "data/shard/dataset.h"

namespace hearth::data {

struct TrainingTable {
  std::shared_ptr<const WindowTable> windows;
  std::string note;  // how it was come by, for people
};

// data.order = "neox" (data/order/neox_order.h). Throws user_error where a dataset or a run is too large for the table.
TrainingTable neox_table(const Dataset& dataset, int64_t seq_len, uint64_t samples, uint32_t seed);
// data.packing = "best_fit" (data/order/best_fit.h).
TrainingTable best_fit_table(const Dataset& dataset, int64_t seq_len, int64_t threads);

}  // namespace hearth::data
