// Clipping by the global L2 norm, as torch.nn.utils.clip_grad_norm_ does it, but without a pass that scales gradients:
// the factor goes into the optimizer's kernel.
#pragma once

#include "parallel/sharded_weights.h"

namespace hearth::optim {

// The squared L2 norm of all gradients of the step, before clipping: [1] float64 beside the weights, the same bits on
// every rank. NaN or infinity in any gradient comes through. Collective; call after the last gradient_ready and before
// end_step. What becomes of it decides ops::StepDecision.
at::Tensor squared_gradient_norm(parallel::ShardedWeights& weights);

}  // namespace hearth::optim
