// SPDX-License-Identifier: Apache-2.0
#include "ops/moe/arrivals.h"

#include <limits>

#include "base/error.h"

namespace hearth::ops {

at::Tensor counts_of(const at::Tensor& ends_1E) {
  const at::Tensor counts_E = ends_1E.flatten().to(at::kLong);
  const int64_t others = counts_E.numel() - 1;
  counts_E.narrow(0, 1, others).sub_(ends_1E.flatten().narrow(0, 0, others));
  return counts_E;
}

ArrivingRows arriving_rows(std::span<const int64_t> counts, int64_t R) {
  const int64_t E = std::ssize(counts) / R;
  ArrivingRows rows;
  std::vector<int64_t> first;  // of each rank's rows of each expert
  int64_t all = 0;
  for (int64_t rank = 0; rank < R; ++rank) {
    const int64_t before = all;
    for (int64_t e = 0; e < E; ++e) {
      first.push_back(all);
      all += counts[static_cast<size_t>(rank * E + e)];
    }
    rows.of_rank.push_back(all - before);
  }
  HEARTH_CHECK(all <= std::numeric_limits<int32_t>::max(), "{} rows arrive", all);
  for (int64_t e = 0; e < E; ++e) {
    for (int64_t rank = 0; rank < R; ++rank) {
      const auto i = static_cast<size_t>(rank * E + e);
      for (int64_t row = 0; row < counts[i]; ++row) rows.order.push_back(first[i] + row);
    }
    rows.ends.push_back(static_cast<int32_t>(rows.order.size()));
  }
  return rows;
}

}  // namespace hearth::ops
