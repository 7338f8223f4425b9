// SPDX-License-Identifier: Apache-2.0
// The planned memory is the allocated memory. Plans that do not fit are refused. Recomputation changes no loss.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>

#include "comm/mesh_groups.h"
#include "comm/ranks.h"
#include "config/derived.h"
#include "config/families.h"
#include "model/transformer.h"
#include "parallel/sharded_weights.h"
#include "plan/run_shape.h"
#include "plan/step_time.h"
#include "run/run.h"
#include "tiny_run.h"

namespace hearth::train {
namespace {

using testing::HasSubstr;

struct TrainMemory : TinyData {};

// The start shows a step's time: its FLOPs divided by the measured speed and the efficiency.
TEST_F(TrainMemory, ATrainingStartSaysWhatItTakes) {
  config::RunConfig c = tiny_config(scratch);
  c.memory.recompute = config::RecomputeChoice::kBlock;
  const run::Run run = run::open_run(c);
  const std::string text = run.describe(true);
  EXPECT_THAT(text, HasSubstr("\n  compute      ")) << text;
  EXPECT_THAT(text, HasSubstr(plan::format_memory(run.memory))) << text;
  EXPECT_THAT(text, HasSubstr("\n  step time    ")) << text;
  EXPECT_THAT(text, HasSubstr("\n  run time     ")) << text;
  const double flops = plan::flops_per_token(run.shape, c.training.seq_len) +
                       plan::recompute_flops_per_token(run.shape, c.training.seq_len, run.memory.recompute);
  const plan::StepTime& t = run.expected_time;
  EXPECT_EQ(t.steps, run.steps);
  EXPECT_DOUBLE_EQ(t.tokens, static_cast<double>(run.global_batch_size * run.seq_len()));
  EXPECT_NEAR(t.step_s * t.speed.gemm_flops * t.speed.efficiency, t.tokens * flops, 1e-6 * t.tokens * flops);
}

TEST(PlannedMemory, IsWhatWeightsOfEveryStageAllocate) {
  for (const bool tied : {false, true}) {
    config::RunConfig c = tiny_config(".");
    c.model.vocab_size = 300;
    c.model.n_layers = 4;
    c.model.enable_weight_tying = tied;
    const plan::ParameterPlan parameters = plan::parameter_plan(plan::model_shape(c, plan::DataFacts{}));
    const plan::Precision mixed{DType::kFloat32, DType::kBFloat16, DType::kFloat32, DType::kFloat32};
    for (const auto& [ranks, replicas] : {std::pair<int64_t, int64_t>{1, 1}, {2, 1}, {3, 1}, {4, 2}, {2, 2}}) {
      for (const auto& [stage, once] : {std::pair(1, false), {2, false}, {3, false}, {3, true}}) {
        for (const plan::Precision& precision : {plan::Precision(DType::kFloat32), mixed}) {
          const plan::Sharding sharding{.replicas = replicas, .zero_stage = stage, .once = once};
          int64_t planned = 0;
          for (const plan::MemoryItem& item : plan::weights_memory(parameters, precision, ranks / replicas, sharding))
            planned += item.bytes;
          comm::run_ranks(ranks, 60, [&](comm::Group& group) {
            const parallel::ShardedWeights weights(parameters, precision, group,
                                                   parallel::ShardedWeights::Mode::kTraining, {}, sharding);
            if (group.rank() == 0) {
              EXPECT_EQ(weights.memory_bytes(), planned) << ranks << " ranks, stage " << stage;
            }
          });
        }
      }
    }
  }
}

// Heads wider than the model's width says, with norms and biases; half of each rotates.
config::RunConfig with_normed_heads(config::RunConfig c) {
  c.model.head_dim = 24;
  c.model.qkv_bias = c.model.qk_norm = true;
  c.model.partial_rotary_factor = 0.5;
  return c;
}

// Queries have a table of angles of their own.
config::RunConfig with_scaled_queries(config::RunConfig c) {
  c.model.rope_scaling_factor = 8;
  c.model.query_position_scale = 0.1;
  return c;
}

void plans_what_weights_and_activations_allocate(config::RunConfig c) {
  c.model.vocab_size = 300;
  for (const int64_t ranks : {1, 2, 3}) {
    for (const auto level : {config::RecomputeChoice::kNone, config::RecomputeChoice::kNorms,
                             config::RecomputeChoice::kAttention, config::RecomputeChoice::kBlock}) {
      for (const DType dtype : {DType::kFloat32, DType::kFloat64}) {
        c.parallelism.data_parallel_shard_degree = ranks;
        c.memory.recompute = level;
        c.training.dtype = dtype;
        const plan::ModelShape shape = plan::model_shape(c, plan::DataFacts{});
        const plan::ParameterPlan parameters = plan::parameter_plan(shape);
        const plan::Precision precision = plan::precision(c);
        const plan::MemoryPlan planned =
            plan::memory_plan(c, shape, parameters, precision, int64_t{1} << 40, ranks, ranks);
        comm::run_ranks(ranks, 60, [&](comm::Group& group) {
          const parallel::ShardedWeights weights(parameters, precision.compute, group,
                                                 parallel::ShardedWeights::Mode::kTraining);
          if (group.rank() == 0) {
            EXPECT_EQ(weights.memory_bytes(), planned.weights_bytes) << ranks << dtype_name(dtype);
          }
        });
        const model::Transformer model(shape, parameters, c.training.local_batch_size, c.training.seq_len,
                                       {.dtype = precision.compute,
                                        .loss_chunk_tokens = c.memory.loss_chunk_tokens,
                                        .training = true,
                                        .recompute = planned.recompute});
        EXPECT_EQ(model.memory_bytes(), planned.activations.total_bytes + planned.table_bytes)
            << name_of(level) << dtype_name(dtype);
      }
    }
  }
}

TEST(PlannedMemory, IsWhatWeightsAndActivationsAllocate) {
  plans_what_weights_and_activations_allocate(tiny_config("."));
  plans_what_weights_and_activations_allocate(with_normed_heads(tiny_config(".")));
  plans_what_weights_and_activations_allocate(with_scaled_queries(tiny_config(".")));
}

void plans_what_ranks_that_share_allocate(config::RunConfig c) {
  c.model.vocab_size = 301;
  for (const auto& [context, tensor, stage, experts] : {std::array<int64_t, 4>{2, 1, 1, 1},
                                                        {4, 1, 3, 1},
                                                        {8, 1, 1, 1},
                                                        {1, 2, 2, 1},
                                                        {2, 2, 3, 1},
                                                        {1, 1, 1, 2},
                                                        {2, 1, 3, 2},
                                                        {1, 2, 3, 4},
                                                        {2, 2, 2, 2}}) {
    if (experts > 1 && c.model.num_experts == 0) continue;
    c.parallelism = {.data_parallel_shard_degree = 2,
                     .zero_stage = stage,
                     .context_parallel_degree = context,
                     .tensor_parallel_degree = tensor,
                     .expert_parallel_degree = experts};
    const int64_t ranks = c.parallelism.ranks();
    const plan::RunShape whole = plan::run_shape(c, plan::DataFacts{});
    const plan::MemoryPlan planned = plan::memory_plan(c, whole, int64_t{1} << 40);
    comm::run_ranks(ranks, 60, [&](comm::Group& world) {
      const comm::MeshGroups groups(world, c.parallelism.degrees(),
                                    {.key_ranks = plan::model_part(whole.model, {0, tensor}, context).key_ranks});
      const plan::TensorPart part{groups.place().tp, tensor};
      const plan::ExpertPart here{groups.experts() == nullptr ? 0 : groups.experts()->rank(), experts};
      const plan::ParameterPlan parameters = plan::parameter_plan(whole.model, part, {}, here);
      const parallel::ShardedWeights weights(
          parameters, whole.precision, groups.loss(), parallel::ShardedWeights::Mode::kTraining, {},
          plan::sharding_of(c), at::kCPU, {}, {.tensor = groups.tensor(), .experts = groups.same_experts()});
      const model::Transformer model(plan::model_part(whole.model, part, context, here), parameters,
                                     c.training.local_batch_size, c.training.seq_len,
                                     {.dtype = whole.precision.compute,
                                      .loss_chunk_tokens = c.memory.loss_chunk_tokens,
                                      .training = true,
                                      .recompute = planned.recompute,
                                      .tensor = groups.tensor(),
                                      .context = {groups.heads(), groups.keys()},
                                      .experts = groups.experts()});
      if (world.rank() > 0) return;
      EXPECT_EQ(weights.memory_bytes(), planned.weights_bytes) << context << " x " << tensor << ", " << experts;
      EXPECT_EQ(model.memory_bytes(), planned.activations.total_bytes + planned.table_bytes)
          << context << " x " << tensor;
    });
  }
}

TEST(PlannedMemory, IsWhatRanksThatShareLayersAndSequencesAllocate) {
  plans_what_ranks_that_share_allocate(tiny_config("."));
  plans_what_ranks_that_share_allocate(with_normed_heads(tiny_config(".")));
  config::RunConfig sparse = tiny_config(".");
  config::apply(config::find_family("qwen3_moe"), sparse.model);
  sparse.model.num_experts = 8;
  sparse.model.moe_hidden_dim = 32;
  plans_what_ranks_that_share_allocate(sparse);
  config::apply(config::find_family("glm4_moe"), sparse.model);
  sparse.model.num_shared_experts = 1;
  sparse.model.attention_gate = true;
  plans_what_ranks_that_share_allocate(sparse);
  sparse.model.attention_gate = false;
  sparse.model.n_kv_heads = 0, sparse.model.kv_lora_rank = 20, sparse.model.v_head_dim = 5;
  sparse.model.qk_nope_head_dim = 6, sparse.model.qk_rope_head_dim = 2;
  for (const int64_t of_queries : {0, 28}) {
    sparse.model.q_lora_rank = of_queries;
    plans_what_ranks_that_share_allocate(sparse);
  }
}

// Every rank of a pipeline: the plan is of the one that needs most.
void plans_what_ranks_of_a_pipeline_allocate(config::RunConfig c) {
  c.model.vocab_size = 301;
  c.model.n_layers = 6;
  c.model.enable_weight_tying = true;
  c.training.local_batch_size = 6;
  c.training.global_batch_size = 12;
  c.memory.recompute_layers = 3;
  for (const auto schedule : {config::PipelineSchedule::k1F1B, config::PipelineSchedule::kInterleavedZeroBubble}) {
    for (const auto level : {config::RecomputeChoice::kNone, config::RecomputeChoice::kAttention}) {
      c.parallelism = {.data_parallel_shard_degree = 2,
                       .pipeline_parallel_degree = 3,
                       .pipeline_parallel_schedule = schedule,
                       .pipeline_parallel_microbatch_size = 2};
      c.memory.recompute = level;
      const plan::RunShape whole = plan::run_shape(c, plan::DataFacts{});
      const plan::PipelinePlan pipeline = plan::pipeline_plan(c, whole.model.L());
      const plan::MemoryPlan planned = plan::memory_plan(c, whole, int64_t{1} << 40);
      std::vector<int64_t> weights_bytes(6), model_bytes(6);
      comm::run_ranks(6, 60, [&](comm::Group& world) {
        const comm::MeshGroups groups(world, c.parallelism.degrees(), {.tied = true});
        const int64_t stage = groups.place().pp;
        const plan::ParameterPlan parameters = plan::parameter_plan(whole.model, {}, pipeline.stages_of(stage));
        const parallel::ShardedWeights weights(
            parameters, whole.precision, groups.loss(), parallel::ShardedWeights::Mode::kTraining, {},
            plan::sharding_of(c), at::kCPU, {}, {.pipeline = groups.pipeline(), .embedding = groups.embedding()});
        const model::Transformer model(whole.model, parameters, config::micro_batch_size(c), c.training.seq_len,
                                       {.dtype = whole.precision.compute,
                                        .loss_chunk_tokens = c.memory.loss_chunk_tokens,
                                        .training = true,
                                        .recompute = planned.recompute,
                                        .pipeline = groups.pipeline(),
                                        .pipeline_plan = pipeline});
        if (world.rank() % 2 > 0) return;  // the first shard of each stage has most
        weights_bytes[static_cast<size_t>(world.rank())] = weights.memory_bytes();
        model_bytes[static_cast<size_t>(world.rank())] = model.memory_bytes();
      });
      int64_t most = 0;
      for (int64_t stage = 0; stage < 3; ++stage) {
        const auto rank = static_cast<size_t>(2 * stage);
        const plan::MemoryPlan own =
            plan::memory_plan(c, whole.model, plan::parameter_plan(whole.model, {}, pipeline.stages_of(stage)),
                              whole.precision, int64_t{1} << 40, 6, config::cpu_threads(c), stage);
        EXPECT_EQ(weights_bytes[rank], own.weights_bytes) << stage;
        EXPECT_EQ(model_bytes[rank], own.activations.total_bytes + own.table_bytes) << stage;
        most = std::max(most, own.total_bytes);
      }
      EXPECT_EQ(planned.total_bytes, most);
    }
  }
}

TEST(PlannedMemory, IsWhatTheRanksOfAPipelineAllocate) {
  plans_what_ranks_of_a_pipeline_allocate(tiny_config("."));
  plans_what_ranks_of_a_pipeline_allocate(with_normed_heads(tiny_config(".")));
}

TEST(PlannedMemory, HasTheSumsOfAReproducibleRun) {
  config::RunConfig c = tiny_config(".");
  c.model.vocab_size = 300;
  c.numerics.reproducible = true;
  const plan::ModelShape shape = plan::model_shape(c, plan::DataFacts{});
  const plan::ParameterPlan parameters = plan::parameter_plan(shape);
  struct Case {
    int64_t micro_batches, ranks, sums;
  };
  // Twelve are three blocks of four: a block's sums of one and of two micro-batches are kept, and that of the blocks.
  for (const Case& of : {Case{1, 1, 0}, {2, 1, 1}, {4, 1, 2}, {8, 1, 3}, {4, 2, 2}, {3, 1, 1}, {6, 1, 2}, {12, 1, 3}}) {
    c.parallelism.data_parallel_shard_degree = of.ranks;
    c.training.global_batch_size = of.micro_batches * of.ranks * c.training.local_batch_size;
    const plan::MemoryPlan planned =
        plan::memory_plan(c, shape, parameters, plan::precision(c), int64_t{1} << 40, of.ranks, /*cpu_threads=*/0);
    int64_t planned_bytes = planned.work_bytes;  // without what the sums between ranks take on a GPU
    for (const plan::MemoryItem& item : planned.work)
      if (item.name == "sums of gradients in order") planned_bytes -= item.bytes;
    comm::run_ranks(of.ranks, 60, [&](comm::Group& group) {
      parallel::ShardedWeights weights(parameters, DType::kFloat32, group, parallel::ShardedWeights::Mode::kTraining,
                                       {}, {.reproducible = true});
      int64_t gradients = 0;
      weights.begin_step(of.micro_batches);
      for (int64_t unit = 0; unit < weights.num_units(); ++unit) {
        for (int64_t i = 0; i < of.micro_batches; ++i) weights.gradient_ready(unit);
        gradients += 4 * plan::slice_numel(parameters.units[static_cast<size_t>(unit)], of.ranks);
      }
      weights.end_step();
      EXPECT_EQ(weights.partial_sums_bytes(), planned_bytes) << of.micro_batches;
      EXPECT_NEAR(static_cast<double>(planned_bytes), static_cast<double>(of.sums * gradients),
                  64.0 * static_cast<double>(of.sums * weights.num_units()))
          << of.micro_batches;
    });
  }
}

TEST_F(TrainMemory, RecomputationChangesNoLossAndMayChangeAtAResume) {
  config::RunConfig c = tiny_config(scratch);
  const auto plain = train(c);
  c.job.dump_folder = "again";
  c.memory.recompute = config::RecomputeChoice::kBlock;
  c.memory.recompute_layers = 1;
  c.training.steps = 5;
  train(c);
  c.memory.recompute = config::RecomputeChoice::kAuto;
  c.memory.recompute_layers = -1;
  c.training.steps = 12;
  const auto again = train(c);
  ASSERT_EQ(again.size(), plain.size());
  for (size_t i = 0; i < again.size(); ++i) {
    EXPECT_EQ(again[i].loss, plain[i].loss);
    EXPECT_EQ(again[i].grad_norm, plain[i].grad_norm);
  }
}

TEST_F(TrainMemory, ARunThatDoesNotFitIsRefusedBeforeItBegins) {
  config::RunConfig c = tiny_config(scratch);
  c.memory.limit = "100 kB";
  const std::string error = error_of([&] { train(c); }).what();
  EXPECT_THAT(error, HasSubstr("of memory, and there are 97.7 KiB")) << error;
  EXPECT_FALSE(path_exists(c.run_folder()));
}

// Windows of 16,384 tokens of a small model train on a CPU, also if four ranks share each of them.
TEST_F(TrainMemory, AWindowOf16384TokensTrainsOnOneRankAndOnFour) {
  build_tiny_data(scratch / "long", /*words_per_document=*/9000);
  config::RunConfig c = tiny_config(scratch);
  c.data.path = "long/data";
  c.model.n_layers = 1;
  c.training.seq_len = 16384;
  c.training.local_batch_size = 1;
  c.training.global_batch_size = 1;
  c.training.steps = 2;
  c.lr_scheduler.warmup_steps = 1;
  c.memory.recompute = config::RecomputeChoice::kBlock;
  const auto records = train(c);
  ASSERT_EQ(records.size(), 2U);
  EXPECT_LT(*records[1].loss, *records[0].loss);
  c.job.dump_folder = "four";
  c.parallelism.context_parallel_degree = 4;
  const auto shared = train(c);
  ASSERT_EQ(shared.size(), 2U);
  for (size_t i = 0; i < 2; ++i) EXPECT_NEAR(*shared[i].loss / *records[i].loss, 1, 1e-6);
}

}  // namespace
}  // namespace hearth::train
