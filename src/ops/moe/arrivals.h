// SPDX-License-Identifier: Apache-2.0
// The order of rows that come from ranks with other experts (models/moe_ops.h, Arrivals).
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <span>
#include <vector>

namespace hearth::ops {

// How many rows of each expert a rank sends, [E] int64, for the ends of its slots.
at::Tensor counts_of(const at::Tensor& ends_1E);

// The rows that arrive at a rank with E experts from R ranks: `counts` [R * E], by rank and then by expert. Rows arrive
// in that order.
struct ArrivingRows {
  std::vector<int64_t> of_rank;  // [R]
  std::vector<int64_t> order;    // of each slot, the place among the rows that arrive; slots are sorted by expert
  std::vector<int32_t> ends;     // [E]: the slot behind each expert's last
};
ArrivingRows arriving_rows(std::span<const int64_t> counts, int64_t R);

}  // namespace hearth::ops
