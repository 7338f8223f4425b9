// SPDX-License-Identifier: Apache-2.0
#include "optim/clip.h"

#include "base/quantity.h"
#include "ops/reduce.h"
#include "ops/tensor.h"

namespace hearth::optim {

namespace {

// The parameters that another rank counts: whole ones, where ranks share the layers.
std::vector<int64_t> uncounted(const parallel::ShardedWeights& weights, int64_t unit) {
  const plan::ParameterPlan& plan = weights.plan();
  const plan::Unit& of = plan.units[static_cast<size_t>(unit)];
  std::vector<int64_t> parameters;
  for (int64_t i = of.first_parameter; i < of.first_parameter + of.num_parameters; ++i)
    if (!plan.parameters[static_cast<size_t>(i)].counts) parameters.push_back(i);
  return parameters;
}

// Their blocks of this rank's slice of a unit. No block has elements of another parameter (plan/parameters.h).
std::vector<plan::Slice> uncounted_blocks(const parallel::ShardedWeights& weights, int64_t unit) {
  std::vector<plan::Slice> blocks;
  for (const int64_t i : uncounted(weights, unit)) {
    const plan::Slice slice = weights.slice(unit);
    const auto owned = weights.owned(i);
    const int64_t begin = weights.plan().parameters[static_cast<size_t>(i)].offset + owned.begin - slice.begin;
    if (owned.numel() > 0) blocks.push_back({begin / ops::kSumBlock, div_ceil(begin + owned.numel(), ops::kSumBlock)});
  }
  return blocks;
}

void add_unit(const at::Tensor& sum_1, const parallel::ShardedWeights& weights, int64_t unit) {
  if (weights.slice(unit).numel() == 0) return;
  if (uncounted(weights, unit).empty()) return ops::add_sum_of_squares(sum_1, weights.gradient_shard(unit));
  const plan::Unit& of = weights.plan().units[static_cast<size_t>(unit)];
  for (int64_t i = of.first_parameter; i < of.first_parameter + of.num_parameters; ++i) {
    const auto owned = weights.owned(i);
    if (owned.numel() > 0 && weights.plan().parameters[static_cast<size_t>(i)].counts)
      ops::add_sum_of_squares(sum_1, owned.gradient);
  }
}

}  // namespace

at::Tensor squared_gradient_norm(parallel::ShardedWeights& weights) {
  at::Tensor sum_1 = ops::zeros({1}, DType::kFloat64, weights.device());
  comm::Group& shards = weights.shard_group();
  // Every rank adds all blocks of all ranks in the same order, because the ends of shards depend on the number of
  // ranks. The blocks' sums are 1/128 of the gradients' bytes in float32. Whole gradients have no place with stages 2
  // and 3.
  if (weights.sharding().reproducible) {
    for (int64_t unit = 0; unit < weights.num_units(); ++unit) {
      const plan::Unit& of = weights.plan().units[static_cast<size_t>(unit)];
      const int64_t of_shard = plan::slice_numel(of, shards.size()) / ops::kSumBlock;
      const at::Tensor blocks = ops::zeros({shards.size() * of_shard}, DType::kFloat64, weights.device());
      const at::Tensor shard = blocks.narrow(0, shards.rank() * of_shard, of_shard);
      const at::Tensor gradient = weights.gradient_shard(unit);
      ops::block_sums_of_squares(shard.narrow(0, 0, div_ceil(gradient.numel(), ops::kSumBlock)), gradient);
      for (const plan::Slice& blocks_of : uncounted_blocks(weights, unit))
        ops::zero_(shard.narrow(0, blocks_of.begin, blocks_of.numel()));
      shards.all_gather(blocks, shard);
      ops::add_in_order(sum_1, blocks.narrow(0, 0, div_ceil(of.numel, ops::kSumBlock)));
    }
  } else {
    for (int64_t unit = 0; unit < weights.num_units(); ++unit) add_unit(sum_1, weights, unit);
    shards.all_reduce(sum_1);
  }
  const parallel::ModelRanks& ranks = weights.ranks();
  for (comm::Group* const group : {ranks.tensor, ranks.pipeline})
    if (group != nullptr) group->all_reduce(sum_1);
  return sum_1;
}

}  // namespace hearth::optim
