// SPDX-License-Identifier: Apache-2.0
#include "train/training.h"

#include "config/derived.h"
#include "mesh/mesh.h"
#include "plan/muon.h"
#include "plan/pipeline_plan.h"
#include "plan/sharding.h"

namespace hearth::train {

// A rank's part of the model.
struct RankTraining::RankModel {
  plan::ModelShape shape;
  plan::PipelinePlan pipeline;
  plan::ParameterPlan plan;

  static RankModel of(const TrainingSetup& setup, int64_t rank) {
    const config::Parallelism& p = setup.config.parallelism;
    const mesh::Coordinates place = mesh::Mesh(p.degrees()).coordinates(rank);
    const plan::TensorPart part{place.tp, p.tensor_parallel_degree};
    const plan::ExpertPart experts{mesh::Mesh::of_experts(p.degrees()).rank_in_group(rank, {mesh::Axis::kEp}),
                                   p.expert_parallel_degree};
    RankModel here{.shape = plan::model_part(setup.shape, part, p.context_parallel_degree, experts),
                   .pipeline = plan::pipeline_plan(setup.config, setup.shape.L()),
                   .plan = {}};
    here.plan = plan::parameter_plan(setup.shape, part, here.pipeline.stages_of(place.pp), experts);
    return here;
  }
};

RankTraining::RankTraining(const TrainingSetup& setup, comm::Group& world)
    : RankTraining(setup, RankModel::of(setup, world.rank()), world) {}

RankTraining::RankTraining(const TrainingSetup& setup, const RankModel& here, comm::Group& world)
    : groups(world, setup.config.parallelism.degrees(), {setup.shape.tied, here.shape.key_ranks}),
      plan(here.plan),
      weights(plan, setup.precision, groups.loss(), parallel::ShardedWeights::Mode::kTraining, setup.trained,
              plan::sharding_of(setup.config), setup.device, plan::muon_matrices(setup.config.optimizer, plan),
              {groups.tensor(), groups.pipeline(), groups.embedding(), groups.same_experts()}),
      optimizer(setup.config.optimizer, weights,
                setup.config.numerics.stochastic_rounding ? std::optional<uint64_t>(setup.config.training.seed)
                                                          : std::nullopt),
      model(here.shape, plan, config::micro_batch_size(setup.config), setup.config.training.seq_len,
            {.dtype = setup.precision.compute,
             .loss_chunk_tokens = plan::loss_chunk(setup.config.memory.loss_chunk_tokens, here.shape,
                                                   setup.precision.compute, !setup.device.is_cpu()),
             .training = true,
             .recompute = setup.recompute,
             .device = setup.device,
             .float8 = setup.config.numerics.float8(),
             .tensor = groups.tensor(),
             .context = {groups.heads(), groups.keys()},
             .experts = groups.experts(),
             .pipeline = groups.pipeline(),
             .pipeline_plan = here.pipeline}),
      step(model, weights, optimizer, step_options(setup.config), setup.guard) {}

}  // namespace hearth::train
