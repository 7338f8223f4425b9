// Clipping by the global L2 norm, as torch.nn.utils.clip_grad_norm_ does it, but without a pass that scales gradients:
// the factor goes into the optimizer's kernel.
#pragma once

#include "parallel/sharded_weights.h"

namespace hearth::optim {

// L2 norm of all gradients of the step, before clipping; summed in double, the same bits on every rank. NaN or infinity
// in any gradient comes through. Collective; call after the last gradient_ready and before end_step.
double gradient_norm(parallel::ShardedWeights& weights);

// min(1, max_norm / (norm + 1e-6)); 1 when max_norm is 0 (no clipping). NaN stays NaN: stop before using it.
double clip_scale(double norm, double max_norm);

}  // namespace hearth::optim
