// SPDX-License-Identifier: Apache-2.0
#include "plan/stage_activations.h"

#include <algorithm>

#include "base/error.h"

namespace hearth::plan {
Backward backward_of(const PipelinePlan& pipeline, bool training) {
  if (!training) return Backward::kNone;
  const bool halves = pipeline.pipeline.schedule == PipelineSchedule::kInterleavedZeroBubble;
  return halves ? Backward::kInHalves : Backward::kWhole;
}

std::vector<ActivationPlan> stage_activations(const ModelShape& shape, int64_t B, int64_t S, DType dtype,
                                              int64_t loss_chunk_tokens, bool training,
                                              std::span<const Recompute> recompute, const PipelinePlan& pipeline,
                                              int64_t rank) {
  HEARTH_CHECK(recompute.empty() || std::ssize(recompute) == shape.L(), "{} levels for {} layers", recompute.size(),
               shape.L());
  const bool alone = pipeline.pipeline.ranks == 1;
  std::vector<int64_t> slots = {0};
  if (!alone) {
    slots = rank_schedule(pipeline.pipeline, rank, training ? PipelinePass::kTraining : PipelinePass::kForward).slots;
  }
  std::vector<ActivationPlan> plans;
  for (const StageLayers& layers : pipeline.stages_of(rank)) {
    const auto levels = recompute.empty()
                            ? recompute
                            : recompute.subspan(static_cast<size_t>(layers.begin), static_cast<size_t>(layers.size()));
    plans.push_back(activation_plan(alone ? shape : stage_part(shape, layers), B, S, dtype, loss_chunk_tokens,
                                    backward_of(pipeline, training), levels, slots[plans.size()]));
  }
  return plans;
}

ActivationBytes sum_of_stages(const std::vector<ActivationPlan>& stages) {
  const auto at_peak = [](const ActivationPlan& plan) { return plan.peak_bytes - plan.num_slots * plan.slot_bytes; };
  const auto peak = std::max_element(stages.begin(), stages.end(),
                                     [&](const auto& a, const auto& b) { return at_peak(a) < at_peak(b); });
  ActivationBytes sum = *peak;
  for (auto stage = stages.begin(); stage != stages.end(); ++stage) {
    sum.shared_bytes = std::max(sum.shared_bytes, stage->shared_bytes);
    if (stage == peak) continue;
    sum.peak_bytes += stage->num_slots * stage->slot_bytes;
    for (size_t i = 0; i < stage->places.size(); ++i) {
      const BufferPlace& place = stage->places[i];
      if (place.is_in_slot) add_at_peak(sum, stage->program.buffers()[i].name, stage->num_slots * place.size_bytes);
    }
  }
  sum.total_bytes = sum.shared_bytes;
  for (const ActivationPlan& stage : stages) sum.total_bytes += stage.num_slots * stage.slot_bytes;
  return sum;
}

}  // namespace hearth::plan
