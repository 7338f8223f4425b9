// SPDX-License-Identifier: Apache-2.0
// The activations of the stages that a rank of a pipeline has. They share the memory that no micro-batch keeps between
// its passes, because a rank computes one pass at a time.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "plan/activations.h"
#include "plan/pipeline_plan.h"

namespace hearth::plan {

// How the stages of a pipeline compute gradients.
Backward backward_of(const PipelinePlan& pipeline, bool training = true);

// The plan of each stage of rank `rank`. `shape`: of all layers; `recompute`: one per layer of the model, or empty. The
// rest is as for activation_plan. Without `training` there is room for a forward of the same schedule.
std::vector<ActivationPlan> stage_activations(const ModelShape& shape, int64_t B, int64_t S, DType dtype,
                                              int64_t loss_chunk_tokens, bool training,
                                              std::span<const Recompute> recompute, const PipelinePlan& pipeline,
                                              int64_t rank);

// The memory of several stages of a rank together.
ActivationBytes sum_of_stages(const std::vector<ActivationPlan>& stages);

}  // namespace hearth::plan
