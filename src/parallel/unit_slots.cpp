// SPDX-License-Identifier: Apache-2.0
#include "parallel/unit_slots.h"

#include <algorithm>

#include "base/error.h"

namespace hearth::parallel {

UnitSlots::UnitSlots(const std::vector<plan::SlotPool>& pools, DType dtype, ops::Arena& arena) {
  for (const plan::SlotPool& pool : pools) {
    auto& slots = pools_.emplace_back();
    for (int64_t i = 0; i < pool.count; ++i) slots.push_back({.whole = arena.take({pool.numel}, dtype)});
    for (const int64_t unit : pool.units) {
      const auto index = static_cast<size_t>(unit);
      if (pool_of_unit_.size() <= index) pool_of_unit_.resize(index + 1);
      pool_of_unit_[index] = pools_.size() - 1;
    }
  }
}

int64_t UnitSlots::bytes_for(const std::vector<plan::SlotPool>& pools, DType dtype) {
  int64_t bytes = 0;
  for (const plan::SlotPool& pool : pools) bytes += pool.count * ops::Arena::bytes_for({pool.numel}, dtype);
  return bytes;
}

UnitSlot* UnitSlots::find(int64_t unit) {
  auto& slots = pools_[pool_of_unit_[static_cast<size_t>(unit)]];
  const auto found = std::find_if(slots.begin(), slots.end(), [&](const UnitSlot& slot) { return slot.unit == unit; });
  if (found == slots.end()) return nullptr;
  found->last_use = ++uses_;
  return &*found;
}

UnitSlot& UnitSlots::take(int64_t unit) {
  UnitSlot* oldest = nullptr;
  for (UnitSlot& slot : pools_[pool_of_unit_[static_cast<size_t>(unit)]])
    if (!slot.in_use && (oldest == nullptr || slot.last_use < oldest->last_use)) oldest = &slot;
  HEARTH_CHECK(oldest != nullptr, "unit {} finds all buffers in use", unit);
  oldest->work.wait();
  oldest->unit = unit;
  oldest->last_use = ++uses_;
  return *oldest;
}

void UnitSlots::clear() {
  for (auto& slots : pools_) {
    for (UnitSlot& slot : slots) {
      slot.work.wait();
      slot.unit = -1;
      slot.in_use = false;
    }
  }
}

}  // namespace hearth::parallel
