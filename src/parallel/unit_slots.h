// SPDX-License-Identifier: Apache-2.0
// Buffers that units use in turn. A unit keeps its buffer after its release until another unit needs it, so weights
// that are needed again soon are still there. Local.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <vector>

#include "comm/stream.h"
#include "ops/tensor.h"
#include "plan/sharding.h"

namespace hearth::parallel {

struct UnitSlot {
  at::Tensor whole;  // the pool's largest unit
  int64_t unit = -1;
  bool in_use = false;
  uint64_t last_use = 0;
  comm::Work work = {};  // the call that reads or writes the buffer
};

class UnitSlots {
 public:
  UnitSlots() = default;  // no unit has a slot
  UnitSlots(const std::vector<plan::SlotPool>& pools, DType dtype, ops::Arena& arena);
  static int64_t bytes_for(const std::vector<plan::SlotPool>& pools, DType dtype);

  bool empty() const { return pools_.empty(); }
  // The unit's slot; null if it has none.
  UnitSlot* find(int64_t unit);
  // Gives the least recently used slot to a unit without a slot. Waits for the slot's work. It is our bug if all slots
  // are in use.
  UnitSlot& take(int64_t unit);
  // Takes all slots from their units. Waits for the slots' work.
  void clear();

 private:
  std::vector<std::vector<UnitSlot>> pools_;
  std::vector<size_t> pool_of_unit_;
  uint64_t uses_ = 0;
};

}  // namespace hearth::parallel
