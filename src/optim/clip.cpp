#include "optim/clip.h"

#include "ops/reduce.h"
#include "ops/tensor.h"

namespace hearth::optim {

at::Tensor squared_gradient_norm(parallel::ShardedWeights& weights) {
  at::Tensor sum_1 = ops::zeros({1}, DType::kFloat64, weights.device());
  if (weights.reproducible()) {  // a slice's end depends on the number of ranks, so every rank sums all elements
    weights.gather_gradients();
    for (int64_t unit = 0; unit < weights.num_units(); ++unit) ops::add_sum_of_squares(sum_1, weights.gradient(unit));
    return sum_1;
  }
  for (int64_t unit = 0; unit < weights.num_units(); ++unit) {
    if (weights.slice(unit).numel() > 0) ops::add_sum_of_squares(sum_1, weights.gradient_shard(unit));
  }
  weights.group().all_reduce(sum_1);
  return sum_1;
}

}  // namespace hearth::optim
