// SPDX-License-Identifier: Apache-2.0
#include "plan/layouts/memory.h"

#include <algorithm>
#include <numeric>

#include "config/derived.h"
#include "plan/muon.h"
#include "plan/name_pattern.h"

namespace hearth::plan {
const LayoutMemory::Line& LayoutMemory::line(const config::RunConfig& config, const PipelinePlan& pipeline,
                                             Recompute level) {
  const config::Parallelism& p = config.parallelism;
  const bool staged = pipeline.pipeline.ranks > 1,
             halves = pipeline.pipeline.schedule == PipelineSchedule::kInterleavedZeroBubble;
  const int64_t B = config::micro_batch_size(config), S = config.training.seq_len;
  const auto [found, is_new] = lines_.try_emplace(
      {p.tensor_parallel_degree, p.context_parallel_degree, p.expert_parallel_degree, B, S, staged, halves, level});
  Line& line = found->second;
  if (!is_new) return line;
  const ModelShape part = first_part(run_.model, p);
  const int64_t chunk = loss_chunk(config.memory.loss_chunk_tokens, part, run_.precision.compute,
                                   config.training.device != config::DeviceKind::kCpu);
  const std::vector<models::Layer> kinds = models::layer_kinds(part).kinds;
  const auto plan_of = [&](const models::Layer& kind, int64_t layers) {
    ModelShape model = part;
    model.layers.assign(static_cast<size_t>(staged ? layers + 1 : layers), kind);  // a first stage has no output
    const std::vector<Recompute> levels(static_cast<size_t>(layers), level);
    return activation_plan(staged ? stage_part(model, {0, layers}) : model, B, S, run_.precision.compute, chunk,
                           halves ? Backward::kInHalves : Backward::kWhole, levels, staged ? 1 : 0);
  };
  const auto add = [](double& fixed, std::vector<double>& of_layer, int64_t of_few, int64_t of_more) {
    const double each = static_cast<double>(of_more - of_few) / 2;
    fixed = std::max(fixed, static_cast<double>(of_few) - 4 * each);
    of_layer.push_back(each);
  };
  for (const models::Layer& kind : kinds) {
    const ActivationPlan few = plan_of(kind, 4), more = plan_of(kind, 6);
    add(line.shared, line.shared_of_layer, few.shared_bytes, more.shared_bytes);
    add(line.slot, line.slot_of_layer, few.slot_bytes, more.slot_bytes);
  }
  return line;
}

double LayoutMemory::weights(const config::RunConfig& config, const PipelinePlan& pipeline) {
  const config::Parallelism& p = config.parallelism;
  const std::tuple of_part(p.tensor_parallel_degree, p.expert_parallel_degree, pipeline.pipeline.ranks,
                           pipeline.pipeline.stages_per_rank);
  const auto [bytes, is_new] = weights_.try_emplace({of_part, p.shards(), p.zero_stage, p.reduce_once_per_step});
  if (!is_new) return bytes->second;
  const auto [found, is_new_part] = parts_.try_emplace(of_part);
  ParameterPlan& part = found->second;
  if (is_new_part)
    part =
        parameter_plan(run_.model, {0, p.tensor_parallel_degree}, pipeline.stages_of(0), {0, p.expert_parallel_degree});
  for (const MemoryItem& item :
       weights_memory(part, run_.precision, shards_of(p), sharding_of(config),
                      trained_parameters(config.checkpoint.freeze, part), muon_matrices(config.optimizer, part)))
    bytes->second += static_cast<double>(item.bytes);
  return bytes->second;
}

const std::vector<int64_t>& LayoutMemory::slots(const Pipeline& pipeline) {
  const auto [found, is_new] =
      slots_.try_emplace({pipeline.schedule, pipeline.ranks, pipeline.stages_per_rank, pipeline.micro_batches});
  if (is_new) found->second = rank_schedule(pipeline, 0, PipelinePass::kTraining).slots;
  return found->second;
}

double LayoutMemory::fixed(const config::RunConfig& config, const PipelinePlan& pipeline) {
  const config::Parallelism& p = config.parallelism;
  const int64_t W = config::micro_batch_size(config) * config.training.seq_len;
  const ModelShape part = first_part(run_.model, p);
  return weights(config, pipeline) +
         static_cast<double>(gpu_workspace_bytes(part, W, run_.precision, config.numerics.float8()));
}

LayoutMemory::LevelBytes LayoutMemory::bytes_of(const config::RunConfig& config, const PipelinePlan& pipeline,
                                                Recompute level) {
  const Line& line = this->line(config, pipeline, level);
  const bool staged = pipeline.pipeline.ranks > 1;
  const std::vector<StageLayers> stages = pipeline.stages_of(0);
  const std::vector<int64_t> slots = staged ? this->slots(pipeline.pipeline) : std::vector<int64_t>(stages.size());
  LevelBytes bytes{line.shared +
                   static_cast<double>(std::accumulate(slots.begin(), slots.end(), int64_t{0})) * line.slot};
  for (size_t i = 0; i < stages.size(); ++i) {
    for (int64_t layer = stages[i].begin; layer < stages[i].end; ++layer) {
      const size_t kind = kinds_.of_layer[static_cast<size_t>(layer)];
      const double shared = line.shared_of_layer[kind];
      // Stages share memory, and the rank's first one is not the smallest.
      if (staged && i == 0) bytes.fixed += shared;
      bytes.layers.push_back(staged ? static_cast<double>(slots[i]) * line.slot_of_layer[kind] : shared);
    }
  }
  return bytes;
}

double LayoutMemory::least(const config::RunConfig& config, const PipelinePlan& pipeline) {
  const LevelBytes bytes = bytes_of(config, pipeline, Recompute::kBlock);
  return std::accumulate(bytes.layers.begin(), bytes.layers.end(), fixed(config, pipeline) + bytes.fixed);
}

std::optional<std::vector<Recompute>> LayoutMemory::cheapest(const config::RunConfig& config,
                                                             const PipelinePlan& pipeline, double limit_bytes) {
  if (weights(config, pipeline) > limit_bytes) return std::nullopt;
  const int64_t S = config.training.seq_len;
  const double held = fixed(config, pipeline);
  std::optional<std::vector<Recompute>> best;
  double best_flops = 0;
  for (const auto& [dearer, others] : kRecomputePairs) {
    const LevelBytes less = bytes_of(config, pipeline, dearer), more = bytes_of(config, pipeline, others);
    double excess =
        std::accumulate(more.layers.begin(), more.layers.end(), std::max(less.fixed, more.fixed) + held - limit_bytes);
    int64_t count = 0;
    for (; excess > 0 && count < std::ssize(more.layers); ++count)
      excess -= more.layers[static_cast<size_t>(count)] - less.layers[static_cast<size_t>(count)];
    if (excess > 0) continue;
    std::vector<Recompute> levels(kinds_.of_layer.size());
    for (int64_t rank = 0; rank < pipeline.pipeline.ranks; ++rank)
      set_levels(levels, pipeline.stages_of(rank), count, dearer, others);
    const double flops = recompute_flops_per_token(run_.model, S, levels);
    if (best && flops >= best_flops) continue;
    best = std::move(levels);
    best_flops = flops;
  }
  return best;
}

}  // namespace hearth::plan
