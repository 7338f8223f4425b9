// SPDX-License-Identifier: Apache-2.0
// Clipping by the global L2 norm, as in torch.nn.utils.clip_grad_norm_. There is no pass that scales gradients: the
// optimizer's kernel applies the factor.
#pragma once

#include "parallel/sharded_weights.h"

namespace hearth::optim {

// The squared L2 norm of all gradients of the step, before clipping: [1] float64 on the weights' device, the same bits
// on every rank. NaN or infinity in any gradient is in the result. Collective; call it after the last gradient_ready
// and before end_step. ops::StepDecision uses the result.
at::Tensor squared_gradient_norm(parallel::ShardedWeights& weights);

}  // namespace hearth::optim
