#include "optim/clip.h"

#include <cmath>

#include "ops/reduce.h"

namespace hearth::optim {

double gradient_norm(parallel::ShardedWeights& weights) {
  double sum = 0;
  if (weights.reproducible()) {  // slices end elsewhere with other ranks, so every rank adds up everything
    weights.gather_gradients();
    for (int64_t unit = 0; unit < weights.num_units(); ++unit) sum += ops::sum_of_squares(weights.gradient(unit));
    return std::sqrt(sum);
  }
  for (int64_t unit = 0; unit < weights.num_units(); ++unit) {
    if (weights.slice(unit).numel() > 0) sum += ops::sum_of_squares(weights.gradient_shard(unit));
  }
  return std::sqrt(weights.group().all_reduce(sum));
}

double clip_scale(double norm, double max_norm) {
  if (max_norm <= 0) return 1;
  const double scale = max_norm / (norm + 1e-6);
  return scale >= 1 ? 1 : scale;  // a NaN is not >= 1 and stays
}

}  // namespace hearth::optim
