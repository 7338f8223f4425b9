// SPDX-License-Identifier: Apache-2.0
// Runs a rank's schedule of a pipeline: computes in the schedule's order, while transfers to and from the neighbouring
// stages are under way in the stream of `group`, in their order.
#pragma once

#include <ATen/core/Tensor.h>

#include <functional>

#include "comm/group.h"
#include "plan/pipeline_plan.h"

namespace hearth::model {

struct PipelineWork {
  // Computes an action that is no transfer. Its input from other stages has arrived.
  std::function<void(const plan::PlacedAction&)> compute;
  // The tensor that a transfer sends or receives. It is always the same for one stage, slot and kind, and lives until
  // the stream of `group` has finished.
  std::function<at::Tensor(const plan::PlacedAction&)> transferred;
};

// `group`: the ranks of the pipeline; null: one rank, without transfers. Collective over it. Returns when all transfers
// have ended.
void run_pipeline(const plan::Pipeline& pipeline, const plan::RankSchedule& schedule, comm::Group* group,
                  const PipelineWork& work);

}  // namespace hearth::model
