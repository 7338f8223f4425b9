#include "plan/run_shape.h"

#include <algorithm>
#include <utility>

#include "base/error.h"
#include "config/derived.h"
#include "plan/pipeline_plan.h"

namespace hearth::plan {

ModelShape model_shape(const config::RunConfig& config, const DataFacts& data, Work work) {
  ModelShape shape = model_shape(config.model, data.vocab_size);
  shape.causal = !config.objective.masked();
  if (config.objective.masked()) {
    shape.sparse_labels = true;
    shape.counted = config.objective.mlm_probability;
  }
  // A recorded micro-batch passes all positions through the head (train/micro_batch_graph.h).
  const bool recorded = work == Work::kTraining && config.training.cuda_graph;
  if (data.weighs_labels && !recorded) {
    shape.sparse_labels = true;
    shape.counted *= data.counted_share;
  }
  return shape;
}

RunShape run_shape(const config::RunConfig& config, const DataFacts& data, Work work) {
  RunShape run{model_shape(config, data, work), {}, precision(config)};
  if (run.model.V == 0)
    throw user_error("the vocabulary's size is not known", "neither data.path nor model.vocab_size is given",
                     "give one of them");
  run.parameters = parameter_plan(run.model);
  const config::Parallelism& p = config.parallelism;
  if (work == Work::kTraining) {
    model_part(run.model, {0, p.tensor_parallel_degree}, p.context_parallel_degree);  // throws
    pipeline_plan(config, run.model.L);                                               // throws
  }
  return run;
}

MemoryPlan memory_plan(const config::RunConfig& config, const RunShape& run, int64_t memory_bytes) {
  // Ranks on a CPU share its memory; a GPU has one rank.
  const bool on_cpu = config.training.device == config::DeviceKind::kCpu;
  const Part first{0, config.parallelism.tensor_parallel_degree};  // has most
  const ModelShape shape = model_part(run.model, first, config.parallelism.context_parallel_degree);
  const PipelinePlan pipeline = pipeline_plan(config, shape.L);
  MemoryPlan fullest;
  std::vector<Recompute> recompute(static_cast<size_t>(shape.L));
  for (int64_t rank = 0; rank < pipeline.pipeline.ranks; ++rank) {
    const std::vector<StageLayers> stages = pipeline.stages_of(rank);
    MemoryPlan plan =
        memory_plan(config, shape, parameter_plan(run.model, first, stages), run.precision, memory_bytes,
                    on_cpu ? config.parallelism.ranks() : 1, on_cpu ? config::cpu_threads(config) : 0, rank);
    for (const StageLayers& stage : stages)
      std::copy(plan.recompute.begin() + stage.begin, plan.recompute.begin() + stage.end,
                recompute.begin() + stage.begin);
    if (plan.total_bytes > fullest.total_bytes) fullest = std::move(plan);
  }
  fullest.recompute = std::move(recompute);
  return fullest;
}

}  // namespace hearth::plan
