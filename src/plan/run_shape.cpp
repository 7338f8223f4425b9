// SPDX-License-Identifier: Apache-2.0
#include "plan/run_shape.h"

#include <fmt/format.h>

#include <algorithm>
#include <numeric>
#include <utility>

#include "base/error.h"
#include "config/derived.h"
#include "plan/context_parallel.h"
#include "plan/pipeline_plan.h"

namespace hearth::plan {

ModelShape model_shape(const config::RunConfig& config, const DataFacts& data, Workload work) {
  ModelShape shape = model_shape(config.model, data.vocab_size);
  shape.causal = !config.objective.masked();
  if (config.objective.masked()) {
    shape.sparse_labels = true;
    // Diffusion hides half of the tokens on average.
    const config::Objective& o = config.objective;
    shape.counted = o.diffuses() ? (1 + o.diffusion_eps) / 2 : (o.mlm_probability + o.last_mlm_probability()) / 2;
  }
  // A recorded micro-batch passes all positions through the head (train/micro_batch_graph.h).
  const bool recorded = work == Workload::kTraining && config.training.cuda_graph;
  if (data.weighs_labels && !recorded) {
    shape.sparse_labels = true;
    shape.counted *= data.counted_share;
  }
  return shape;
}

namespace {

// Throws a user error if the ranks cannot cut windows of S positions.
void check_sequences(const ModelShape& s, int64_t S) {
  if (divides_sequence({0, s.context, s.key_ranks}, S)) return;
  throw user_error(
      fmt::format("{} ranks cannot share a window of training.seq_len = {}", s.context, S),
      s.key_ranks == 1 ? "each has as many positions as every other"
                       : fmt::format("{} two chunks of the window, so {} chunks have equal lengths",
                                     s.head_ranks() == 1 ? "each has"
                                                         : fmt::format("{} groups of {} ranks, which share heads, have",
                                                                       s.key_ranks, s.head_ranks()),
                                     2 * s.key_ranks),
      fmt::format("give windows of a multiple of {}", std::lcm(s.context, s.key_ranks == 1 ? 1 : 2 * s.key_ranks)))
      .about("parallelism.context_parallel_degree");
}

}  // namespace

RunShape run_shape(const config::RunConfig& config, const DataFacts& data, Workload work) {
  RunShape run{model_shape(config, data, work), {}, precision(config)};
  if (run.model.V == 0)
    throw user_error("the vocabulary's size is not known", "neither data.path nor model.vocab_size is given",
                     "give one of them");
  run.parameters = parameter_plan(run.model);
  const config::Parallelism& p = config.parallelism;
  if (work == Workload::kTraining) {
    check_sequences(first_part(run.model, p), config.training.seq_len);
    pipeline_plan(config, run.model.L());  // throws
  }
  return run;
}

MemoryPlan memory_plan(const config::RunConfig& config, const RunShape& run, int64_t memory_bytes,
                       std::span<const Recompute> levels) {
  // Ranks on a CPU share its memory; a GPU has one rank.
  const bool on_cpu = config.training.device == config::DeviceKind::kCpu;
  const TensorPart first{0, config.parallelism.tensor_parallel_degree};  // has most
  const ModelShape shape = first_part(run.model, config.parallelism);
  const ExpertPart first_experts{0, config.parallelism.expert_parallel_degree};
  const PipelinePlan pipeline = pipeline_plan(config, shape.L());
  MemoryPlan fullest;
  std::vector<Recompute> recompute(static_cast<size_t>(shape.L()));
  for (int64_t rank = 0; rank < pipeline.pipeline.ranks; ++rank) {
    const std::vector<StageLayers> stages = pipeline.stages_of(rank);
    MemoryPlan plan =
        memory_plan(config, shape, parameter_plan(run.model, first, stages, first_experts), run.precision, memory_bytes,
                    on_cpu ? config.parallelism.ranks() : 1, on_cpu ? config::cpu_threads(config) : 0, rank, levels,
                    sample_bytes(config, model_part(run.model, first, 1, first_experts), run.precision, rank));
    for (const StageLayers& stage : stages)
      std::copy(plan.recompute.begin() + stage.begin, plan.recompute.begin() + stage.end,
                recompute.begin() + stage.begin);
    if (plan.total_bytes > fullest.total_bytes) fullest = std::move(plan);
  }
  fullest.recompute = std::move(recompute);
  return fullest;
}

}  // namespace hearth::plan
