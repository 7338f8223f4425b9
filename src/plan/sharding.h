// SPDX-License-Identifier: Apache-2.0
// How a training's data-parallel ranks share weights, gradients and moments: ZeRO (arXiv 1910.02054) and HSDP. This is
// arithmetic; parallel/sharded_weights.h does it, and plan/memory.h adds up its memory.
//
//   stage   weights                   gradients                moments   communication of a step with A micro-batches
//   1       whole                     whole                    sharded   weights once, gradients once
//   2       whole                     a slot for two blocks    sharded   weights once, gradients A times
//   3       slots for three blocks    a slot for two blocks    sharded   weights 2 A times, gradients A times
//   3 once  slots for three blocks    whole                    sharded   weights 2 A times, gradients once
//
// HSDP: the ranks are `replicas` rows of `shards` neighbours. A row holds everything once; an element's gradient is
// reduced in its row first, and its shard is then summed over the rows.
//
// Where ranks have different experts, fewer ranks share each expert: those with the same ones. All this holds for them.
#pragma once

#include <cstdint>
#include <vector>

#include "plan/parameters.h"
#include "plan/precision.h"

namespace hearth::config {
struct Parallelism;
struct RunConfig;
}  // namespace hearth::config

namespace hearth::plan {

// The number of ranks that share a unit. Converts from an int64_t: as many for experts.
struct Shards {
  int64_t dense, experts;
  Shards(int64_t all) : dense(all), experts(all) {}  // NOLINT(google-explicit-constructor): most models have no experts
  Shards(int64_t of_dense, int64_t of_experts) : dense(of_dense), experts(of_experts) {}
  int64_t of(const Unit& unit) const { return unit.of_experts ? experts : dense; }
};
Shards shards_of(const config::Parallelism& parallelism);

struct Sharding {
  int64_t replicas = 1;
  int64_t zero_stage = 1;  // 1, 2 or 3
  bool once = false;       // parallelism.reduce_once_per_step, for stage 3
  // The same bits for any numbers of shards and replicas that are powers of two, and any stage.
  bool reproducible = false;

  // Whether a unit that `shards` ranks share has a whole buffer of its own, instead of slots.
  bool has_whole_weights(int64_t shards, const Precision& precision) const {
    return zero_stage < 3 || (shards == 1 && precision.masters == precision.compute);
  }
  bool has_whole_gradients(int64_t shards) const { return zero_stage < 2 || once || shards == 1; }
};

// As the run file says.
Sharding sharding_of(const config::RunConfig& config);

// Units that share buffers: `count` buffers, each large enough for any of them.
struct SlotPool {
  std::vector<int64_t> units;
  int64_t count;
  int64_t numel;  // of a buffer: the largest whole unit
};

// For units without a whole buffer. The blocks share buffers, and the experts of all layers share others. Embedding
// and output share one, too: they are needed at the same time only if they are tied.
std::vector<SlotPool> weight_slots(const ParameterPlan& plan, const Shards& shards, const Sharding& sharding,
                                   const Precision& precision);
std::vector<SlotPool> gradient_slots(const ParameterPlan& plan, const Shards& shards, const Sharding& sharding);

// A step's gradients are added in the order of its micro-batches over all ranks: micro-batch a of rank r has number
// a * ranks + r. If reproducible, neighbours are added in pairs, in aligned blocks of the largest power of two that
// divides the number of micro-batches; the blocks' sums are added in sequence. The ranks of a micro-batch are a part of
// a block. This is the number of a rank's micro-batches in a block; 1 if not reproducible.
int64_t paired_micro_batches(int64_t micro_batches_of_rank, bool reproducible);

// How many partial sums a rank keeps for reproducible sums. Each costs as much memory as its shards of all gradients.
int64_t num_partial_sums(int64_t micro_batches_of_rank, const Sharding& sharding, int64_t shards);

}  // namespace hearth::plan
