#include "optim/clip.h"

#include "base/quantity.h"
#include "ops/reduce.h"
#include "ops/tensor.h"

namespace hearth::optim {

at::Tensor squared_gradient_norm(parallel::ShardedWeights& weights) {
  at::Tensor sum_1 = ops::zeros({1}, DType::kFloat64, weights.device());
  comm::Group& shards = weights.shard_group();
  if (weights.sharding().reproducible) {  // every rank adds all blocks of all ranks in the same order
    for (int64_t unit = 0; unit < weights.num_units(); ++unit) {
      const plan::Unit& of = weights.plan().units[static_cast<size_t>(unit)];
      const int64_t of_shard = plan::slice_numel(of, shards.size()) / ops::kSumBlock;
      const at::Tensor blocks = ops::zeros({shards.size() * of_shard}, DType::kFloat64, weights.device());
      const at::Tensor shard = blocks.narrow(0, shards.rank() * of_shard, of_shard);
      const at::Tensor gradient = weights.gradient_shard(unit);
      ops::block_sums_of_squares(shard.narrow(0, 0, div_ceil(gradient.numel(), ops::kSumBlock)), gradient);
      shards.all_gather(blocks, shard);
      ops::add_in_order(sum_1, blocks.narrow(0, 0, div_ceil(of.numel, ops::kSumBlock)));
    }
    return sum_1;
  }
  for (int64_t unit = 0; unit < weights.num_units(); ++unit) {
    if (weights.slice(unit).numel() > 0) ops::add_sum_of_squares(sum_1, weights.gradient_shard(unit));
  }
  shards.all_reduce(sum_1);
  return sum_1;
}

}  // namespace hearth::optim
