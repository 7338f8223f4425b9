// SPDX-License-Identifier: Apache-2.0
// Saves that are written behind the training (checkpoint.async_mode), compared with saves at once.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "checkpoint/retain.h"
#include "comm/mesh_groups.h"
#include "comm/ranks.h"
#include "parallel/sharded_weights.h"
#include "plan/memory.h"
#include "plan/muon.h"
#include "plan/name_pattern.h"
#include "run/snapshot.h"
#include "tiny_run.h"

namespace hearth::train {
namespace {

struct AsyncSave : TinyData {
  config::RunConfig run_of(const std::string& name, int64_t ranks) const {
    config::RunConfig c = tiny_config(scratch);
    c.job.dump_folder = name;
    c.parallelism.data_parallel_shard_degree = ranks;
    c.training.threads = ranks;
    c.training.steps = 30;
    c.checkpoint.interval = 3;
    c.checkpoint.keep_latest_k = 0;
    c.validation.freq = 10;
    return c;
  }
};

TEST_F(AsyncSave, HasEveryCheckpointOfARunThatSavesAtOnceToTheBit) {
  for (const int64_t ranks : {1, 2, 3}) {
    config::RunConfig at_once = run_of(fmt::format("at-once-{}", ranks), ranks);
    at_once.training.global_batch_size = 2 * ranks;
    at_once.training.local_batch_size = 1;
    const auto expected = train(at_once);
    config::RunConfig c = at_once;
    c.job.dump_folder = fmt::format("behind-{}", ranks);
    c.checkpoint.async_mode = config::AsyncMode::kAsync;
    expect_same_training(train(c), expected);
    const std::vector<int64_t> steps = checkpoint::list_steps(c.checkpoint_folder());
    EXPECT_EQ(steps, checkpoint::list_steps(at_once.checkpoint_folder()));
    EXPECT_EQ(steps.size(), 10U);
    for (const int64_t step : steps)
      EXPECT_EQ(tensors_of(step_of(c, step)), tensors_of(step_of(at_once, step))) << step;
  }
}

// The steps after a save change the weights while the copy is written. A run that goes on from each checkpoint ends
// with the bits of the whole run.
TEST_F(AsyncSave, CheckpointsLeadToTheSameEnd) {
  config::RunConfig c = run_of("whole", 2);
  c.checkpoint.async_mode = config::AsyncMode::kAsync;
  const auto expected = train(c);
  for (const int64_t step : {3, 15, 27}) {
    config::RunConfig part = c;
    part.job.dump_folder = fmt::format("from-{}", step);
    part.training.steps = step;
    train(part);
    part.training.steps = 30;
    expect_same_training(train(part), expected);
    EXPECT_EQ(tensors_of(step_of(part, 30)), tensors_of(step_of(c, 30)));
  }
}

TEST_F(AsyncSave, MemoryOfTheCopyIsWhatIsPlanned) {
  for (const auto& [replicas, shards, tensor] : {std::tuple(1, 1, 1), {1, 3, 1}, {2, 2, 1}, {1, 2, 2}}) {
    for (const config::OptimizerName name : {config::OptimizerName::kAdamW, config::OptimizerName::kMuon}) {
      config::RunConfig c = tiny_config(scratch);
      c.model.vocab_size = 300;
      c.optimizer.name = name;
      c.optimizer.moments_dtype = name == config::OptimizerName::kAdamW ? DType::kBFloat16 : DType::kFloat32;
      c.checkpoint.freeze = {"layers.0.attention.wo.weight"};
      c.checkpoint.async_mode = config::AsyncMode::kAsync;
      c.parallelism.data_parallel_replicate_degree = replicas;
      c.parallelism.data_parallel_shard_degree = shards;
      c.parallelism.tensor_parallel_degree = tensor;
      const plan::ModelShape shape = plan::model_shape(c, plan::DataFacts{});
      const plan::Precision precision = plan::precision(c);
      int64_t most = 0;
      std::mutex mutex;
      comm::run_ranks(c.parallelism.ranks(), 60, [&](comm::Group& world) {
        const comm::MeshGroups groups(world, c.parallelism.degrees(), {});
        const plan::ParameterPlan plan = plan::parameter_plan(shape, {groups.place().tp, tensor});
        const parallel::ShardedWeights weights(
            plan, precision, groups.loss(), parallel::ShardedWeights::Mode::kTraining,
            plan::trained_parameters(c.checkpoint.freeze, plan), plan::sharding_of(c), at::kCPU,
            plan::muon_matrices(c.optimizer, plan), {.tensor = groups.tensor()});
        const run::Snapshot snapshot(weights, run::Snapshot::Memory::kCopy);
        const std::lock_guard lock(mutex);
        most = std::max(most, snapshot.memory_bytes());
      });
      EXPECT_EQ(plan::snapshot_bytes(c, plan::parameter_plan(shape, {0, tensor}), precision), most)
          << replicas << " " << shards << " " << tensor;
    }
  }
}

TEST_F(AsyncSave, RulesKeepWhatTheyNameAndExtraStepsAreSaved) {
  for (const auto mode : {config::AsyncMode::kDisabled, config::AsyncMode::kAsync}) {
    config::RunConfig c = run_of(fmt::format("rules-{}", config::name_of(mode)), 2);
    c.checkpoint.async_mode = mode;
    c.checkpoint.keep_latest_k = 2;
    c.checkpoint.keep_every = 12;
    c.checkpoint.extra_steps = {1, 20};
    train(c);
    EXPECT_THAT(checkpoint::list_steps(c.checkpoint_folder()), testing::ElementsAre(1, 12, 20, 24, 27, 30));
  }
}

}  // namespace
}  // namespace hearth::train
