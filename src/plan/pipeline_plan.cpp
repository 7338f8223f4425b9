// SPDX-License-Identifier: Apache-2.0
#include "plan/pipeline_plan.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <utility>

#include "base/quantity.h"
#include "models/flops.h"
#include "plan/pipeline_simulation.h"

namespace hearth::plan {
namespace {

// As few as stages of `layers_per_stage` layers allow, embedding and output counted in. torchtitan's rule, which also
// refuses numbers of stages that the ranks do not divide.
int64_t stages_per_rank(const config::Parallelism& p, int64_t num_layers) {
  const bool several = p.pipeline_parallel_schedule == PipelineSchedule::kInterleaved1F1B ||
                       p.pipeline_parallel_schedule == PipelineSchedule::kInterleavedZeroBubble;
  if (p.pipeline_parallel_layers_per_stage == 0) return several ? 2 : 1;
  const int64_t work =
      num_layers + p.pipeline_parallel_first_stage_less_layers + p.pipeline_parallel_last_stage_less_layers;
  return div_ceil(work, p.pipeline_parallel_layers_per_stage * p.pipeline_parallel_degree);
}

std::vector<RankActions> forwards_only(std::vector<RankActions> ranks) {
  for (RankActions& actions : ranks)
    std::erase_if(actions, [](const Action& action) { return action.kind != ActionKind::kForward; });
  return ranks;
}

// The slot of a micro-batch in a stage: the one that it holds, else the lowest free one. `holders`: of each slot.
constexpr int32_t kFree = -1;
std::vector<int32_t>::iterator slot_of(std::vector<int32_t>& holders, int32_t micro_batch) {
  auto slot = std::find(holders.begin(), holders.end(), micro_batch);
  if (slot == holders.end()) slot = std::find(holders.begin(), holders.end(), kFree);
  if (slot == holders.end()) slot = holders.insert(slot, kFree);
  *slot = micro_batch;
  return slot;
}

}  // namespace

std::vector<StageLayers> PipelinePlan::stages_of(int64_t rank) const {
  std::vector<StageLayers> stages;
  for (int64_t stage = rank; stage < std::ssize(layers); stage += pipeline.ranks)
    stages.push_back(layers[static_cast<size_t>(stage)]);
  return stages;
}

PipelinePlan pipeline_plan(const config::RunConfig& config, int64_t num_layers) {
  const config::Parallelism& p = config.parallelism;
  if (p.pipeline_parallel_degree == 1) return {{PipelineSchedule::k1F1B, 1, 1, 1}, {{0, num_layers}}};
  const Pipeline pipeline{p.pipeline_parallel_schedule, p.pipeline_parallel_degree, stages_per_rank(p, num_layers),
                          std::max<int64_t>(1, config.training.local_batch_size / p.pipeline_parallel_microbatch_size)};
  check(pipeline);
  return {pipeline, stage_layers(num_layers, pipeline.num_stages(), p.pipeline_parallel_first_stage_less_layers,
                                 p.pipeline_parallel_last_stage_less_layers)};
}

double pipeline_bubble(const PipelinePlan& plan, const ModelShape& s, int64_t seq_len) {
  if (plan.pipeline.ranks == 1) return 0;
  const models::ModelFlops flops = models::model_flops(s, seq_len);
  PipelineTimes times;
  for (const StageLayers& stage : plan.layers) {
    models::BlockFlops sum;
    for (int64_t layer = stage.begin; layer < stage.end; ++layer) sum += flops.layers[static_cast<size_t>(layer)];
    const double output = stage.end == s.L() ? (flops.output * s.counted + flops.head) / 3 : 0;  // of each pass
    times.stages.push_back(
        {sum.forward + output, sum.backward - sum.weight_gradients + output, sum.weight_gradients + output});
  }
  const auto actions = with_transfers(plan.pipeline, compute_actions(plan.pipeline));
  return simulate(plan.pipeline, actions, times, TransferMode::kOverlapped).bubble;
}

std::string format_pipeline(const PipelinePlan& plan, const ModelShape& shape, int64_t seq_len) {
  const Pipeline& p = plan.pipeline;
  if (p.ranks == 1) return "";
  std::vector<int64_t> sizes;
  for (const StageLayers& layers : plan.layers) sizes.push_back(layers.size());
  return fmt::format(
      "  pipeline     {}: {} micro-batches through stages of {} layers on {} ranks, which wait {:.0f} % of "
      "a step\n",
      config::name_of(p.schedule), p.micro_batches, fmt::join(sizes, ", "), p.ranks,
      100 * pipeline_bubble(plan, shape, seq_len));
}

RankSchedule rank_schedule(const Pipeline& pipeline, int64_t rank, PipelinePass pass) {
  const bool trains = pass == PipelinePass::kTraining;
  std::vector<RankActions> computed = compute_actions(pipeline);
  if (!trains) computed = forwards_only(std::move(computed));
  const RankActions actions = std::move(with_transfers(pipeline, computed)[static_cast<size_t>(rank)]);

  // The actions of a micro-batch in a stage that are still to come: with the last one its slot is free.
  std::map<std::pair<int32_t, int32_t>, int64_t> left;
  for (const Action& action : actions) ++left[{action.stage, action.micro_batch}];
  std::vector<std::vector<int32_t>> holders(static_cast<size_t>(pipeline.stages_per_rank));
  RankSchedule schedule;
  for (const Action& action : actions) {
    std::vector<int32_t>& of_stage = holders[static_cast<size_t>(action.stage / pipeline.ranks)];
    const auto slot = slot_of(of_stage, action.micro_batch);
    schedule.actions.push_back({action, slot - of_stage.begin()});
    if (--left[{action.stage, action.micro_batch}] == 0) *slot = kFree;
  }
  for (const std::vector<int32_t>& of_stage : holders) schedule.slots.push_back(std::ssize(of_stage));
  return schedule;
}

}  // namespace hearth::plan
