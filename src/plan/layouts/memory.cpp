#include "plan/layouts/memory.h"

#include <algorithm>
#include <numeric>
#include <span>

#include "config/derived.h"
#include "plan/muon.h"
#include "plan/name_pattern.h"

namespace hearth::plan {
namespace {

// The first `count` layers of each rank at one level, the others at another.
std::vector<Recompute> levels_of(const PipelinePlan& pipeline, int64_t count, Recompute first, Recompute others) {
  std::vector<Recompute> levels(static_cast<size_t>(pipeline.layers.back().end), others);
  for (int64_t rank = 0; rank < pipeline.pipeline.ranks; ++rank) {
    int64_t left = count;
    for (const StageLayers& stage : pipeline.stages_of(rank))
      for (int64_t layer = stage.begin; layer < stage.end && left > 0; ++layer, --left)
        levels[static_cast<size_t>(layer)] = first;
  }
  return levels;
}

}  // namespace

const LayoutMemory::Line& LayoutMemory::line(const config::RunConfig& config, const PipelinePlan& pipeline,
                                             Recompute level) {
  const config::Parallelism& p = config.parallelism;
  const bool staged = pipeline.pipeline.ranks > 1,
             halves = pipeline.pipeline.schedule == PipelineSchedule::kInterleavedZeroBubble;
  const int64_t B = config::micro_batch_size(config), S = config.training.seq_len;
  const Shape shape(p.tensor_parallel_degree, p.context_parallel_degree, B, S, staged, halves);
  const auto found = lines_.find({shape, level});
  if (found != lines_.end()) return found->second;
  const ModelShape part = model_part(run_.model, {0, p.tensor_parallel_degree}, p.context_parallel_degree);
  const std::vector<models::Layer> kinds = models::layer_kinds(part).kinds;
  const auto plan_of = [&](const models::Layer& kind, int64_t layers) {
    ModelShape model = part;
    model.layers.assign(static_cast<size_t>(staged ? layers + 1 : layers), kind);  // a first stage has no output
    const std::vector<Recompute> levels(static_cast<size_t>(layers), level);
    return activation_plan(staged ? stage_part(model, {0, layers}) : model, B, S, run_.precision.compute,
                           config.memory.loss_chunk_tokens, halves ? Backward::kInHalves : Backward::kWhole, levels,
                           staged ? 1 : 0);
  };
  const auto add = [](double& fixed, std::vector<double>& of_layer, int64_t of_few, int64_t of_more) {
    const double each = static_cast<double>(of_more - of_few) / 2;
    fixed = std::max(fixed, static_cast<double>(of_few) - 4 * each);
    of_layer.push_back(each);
  };
  Line& line = lines_[{shape, level}];
  for (const models::Layer& kind : kinds) {
    const ActivationPlan few = plan_of(kind, 4), more = plan_of(kind, 6);
    add(line.shared, line.shared_of_layer, few.shared_bytes, more.shared_bytes);
    add(line.slot, line.slot_of_layer, few.slot_bytes, more.slot_bytes);
  }
  return line;
}

double LayoutMemory::weights(const config::RunConfig& config, const PipelinePlan& pipeline) {
  const config::Parallelism& p = config.parallelism;
  const std::tuple key(p.tensor_parallel_degree, pipeline.pipeline.ranks, pipeline.pipeline.stages_per_rank, p.shards(),
                       p.zero_stage, p.reduce_once_per_step);
  const auto found = weights_.find(key);
  if (found != weights_.end()) return found->second;
  const std::tuple of_part(p.tensor_parallel_degree, pipeline.pipeline.ranks, pipeline.pipeline.stages_per_rank);
  auto part = parts_.find(of_part);
  if (part == parts_.end())
    part =
        parts_.emplace(of_part, parameter_plan(run_.model, {0, p.tensor_parallel_degree}, pipeline.stages_of(0))).first;
  double bytes = 0;
  for (const MemoryItem& item : weights_memory(part->second, run_.precision, p.shards(), sharding_of(config),
                                               trained_parameters(config.checkpoint.freeze, part->second),
                                               muon_matrices(config.optimizer, part->second)))
    bytes += static_cast<double>(item.bytes);
  return weights_[key] = bytes;
}

const std::vector<int64_t>& LayoutMemory::slots(const Pipeline& pipeline) {
  const std::tuple key(pipeline.schedule, pipeline.ranks, pipeline.stages_per_rank, pipeline.micro_batches);
  const auto found = slots_.find(key);
  if (found != slots_.end()) return found->second;
  return slots_[key] = rank_schedule(pipeline, 0, PipelinePass::kTraining).slots;
}

LayoutMemory::Held LayoutMemory::held(const config::RunConfig& config, const PipelinePlan& pipeline) {
  const config::Parallelism& p = config.parallelism;
  const int64_t B = config::micro_batch_size(config), S = config.training.seq_len;
  const ModelShape part = model_part(run_.model, {0, p.tensor_parallel_degree}, p.context_parallel_degree);
  Held held;
  held.fixed = weights(config, pipeline) +
               static_cast<double>(gpu_workspace_bytes(part, B * S, run_.precision, config.numerics.fp8));
  held.staged = pipeline.pipeline.ranks > 1;
  const std::vector<StageLayers> stages = pipeline.stages_of(0);
  for (size_t i = 0; i < stages.size(); ++i) {
    const double slots = held.staged ? static_cast<double>(this->slots(pipeline.pipeline)[i]) : 0;
    held.slots += slots;
    for (int64_t layer = stages[i].begin; layer < stages[i].end; ++layer)
      held.layers.push_back({kinds_.of_layer[static_cast<size_t>(layer)], slots, i == 0});
  }
  return held;
}

LayoutMemory::LevelBytes LayoutMemory::bytes_of(const config::RunConfig& config, const PipelinePlan& pipeline,
                                                Recompute level, const Held& held) {
  const Line& line = this->line(config, pipeline, level);
  LevelBytes bytes{line.shared + held.slots * line.slot};
  for (const HeldLayer& layer : held.layers) {
    const double shared = line.shared_of_layer[layer.kind];
    if (held.staged && layer.is_in_first_stage) bytes.fixed += shared;
    bytes.layers.push_back(held.staged ? layer.slots * line.slot_of_layer[layer.kind] : shared);
  }
  return bytes;
}

double LayoutMemory::least(const config::RunConfig& config, const PipelinePlan& pipeline) {
  const Held held = this->held(config, pipeline);
  const LevelBytes bytes = bytes_of(config, pipeline, Recompute::kBlock, held);
  return std::accumulate(bytes.layers.begin(), bytes.layers.end(), held.fixed + bytes.fixed);
}

std::optional<std::vector<Recompute>> LayoutMemory::cheapest(const config::RunConfig& config,
                                                             const PipelinePlan& pipeline, double limit_bytes) {
  if (weights(config, pipeline) > limit_bytes) return std::nullopt;
  const int64_t S = config.training.seq_len;
  const Held held = this->held(config, pipeline);
  std::optional<std::vector<Recompute>> best;
  double best_flops = 0;
  for (const auto& [dearer, others] : kRecomputePairs) {
    const LevelBytes less = bytes_of(config, pipeline, dearer, held), more = bytes_of(config, pipeline, others, held);
    double excess = std::accumulate(more.layers.begin(), more.layers.end(),
                                    std::max(less.fixed, more.fixed) + held.fixed - limit_bytes);
    int64_t count = 0;
    for (; excess > 0 && count < std::ssize(held.layers); ++count)
      excess -= more.layers[static_cast<size_t>(count)] - less.layers[static_cast<size_t>(count)];
    if (excess > 0) continue;
    std::vector<Recompute> levels = levels_of(pipeline, count, dearer, others);
    const double flops = recompute_flops_per_token(run_.model, S, levels);
    if (best && flops >= best_flops) continue;
    best = std::move(levels);
    best_flops = flops;
  }
  return best;
}

}  // namespace hearth::plan
