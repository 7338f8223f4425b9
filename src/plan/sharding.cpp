// SPDX-License-Identifier: Apache-2.0
#include "plan/sharding.h"

#include <algorithm>
#include <bit>

#include "config/config.h"

namespace hearth::plan {
namespace {

constexpr int64_t kWeightSlots = 3;    // one in use, one that is gathered ahead, one that the backward finds again
constexpr int64_t kGradientSlots = 2;  // one in use, one that is reduced

template <class NeedsSlot>
std::vector<SlotPool> slot_pools(const ParameterPlan& plan, const Shards& shards, int64_t block_slots,
                                 const NeedsSlot& needs_slot) {
  const auto last = static_cast<int64_t>(plan.units.size()) - 1;
  const bool tied = plan.parameters.back().name != "output.weight";
  std::vector<SlotPool> pools;
  const auto add = [&](std::vector<int64_t> units, int64_t most) {
    int64_t numel = 0;
    const auto unit_at = [&](int64_t unit) -> const Unit& { return plan.units[static_cast<size_t>(unit)]; };
    std::erase_if(units, [&](int64_t unit) { return !unit_at(unit).is_here || !needs_slot(shards.of(unit_at(unit))); });
    for (const int64_t unit : units) {
      const int64_t ranks = shards.of(unit_at(unit));
      numel = std::max(numel, ranks * slice_numel(unit_at(unit), ranks));
    }
    const int64_t count = std::min(most, std::ssize(units));
    pools.push_back({std::move(units), count, numel});
  };
  if (tied) {
    add({0}, 1);
    add({last}, 1);
  } else {
    add({0, last}, 1);
  }
  std::vector<int64_t> blocks, experts;
  for (const LayerUnits& layer : plan.layers) {
    blocks.push_back(layer.block);
    if (layer.has_experts()) experts.push_back(layer.experts);
  }
  add(std::move(blocks), block_slots);
  add(std::move(experts), block_slots);
  std::erase_if(pools, [](const SlotPool& pool) { return pool.units.empty(); });
  return pools;
}

}  // namespace

Sharding sharding_of(const config::RunConfig& config) {
  return {.replicas = config.parallelism.data_parallel_replicate_degree,
          .zero_stage = config.parallelism.zero_stage,
          .once = config.parallelism.reduce_once_per_step,
          .reproducible = config.numerics.reproducible};
}

Shards shards_of(const config::Parallelism& p) {
  return {p.shards(), p.expert_parallel_degree == 1 ? p.shards() : p.degrees().expert_shards()};
}

std::vector<SlotPool> weight_slots(const ParameterPlan& plan, const Shards& shards, const Sharding& sharding,
                                   const Precision& precision) {
  return slot_pools(plan, shards, kWeightSlots,
                    [&](int64_t ranks) { return !sharding.has_whole_weights(ranks, precision); });
}

std::vector<SlotPool> gradient_slots(const ParameterPlan& plan, const Shards& shards, const Sharding& sharding) {
  return slot_pools(plan, shards, kGradientSlots, [&](int64_t ranks) { return !sharding.has_whole_gradients(ranks); });
}

int64_t paired_micro_batches(int64_t micro_batches_of_rank, bool reproducible) {
  return reproducible ? micro_batches_of_rank & -micro_batches_of_rank : 1;
}

int64_t num_partial_sums(int64_t micro_batches_of_rank, const Sharding& sharding, int64_t shards) {
  if (!sharding.reproducible) return 0;
  const int64_t paired = paired_micro_batches(micro_batches_of_rank, true);
  // A block's sums are a binary counter: one for each of its digits. The sum of the blocks so far has its own place
  // where a whole gradient is in the place of its shard.
  const int64_t blocks = micro_batches_of_rank / paired;
  return std::countr_zero(static_cast<uint64_t>(paired)) + (blocks > 1 && sharding.has_whole_gradients(shards) ? 1 : 0);
}

}  // namespace hearth::plan
