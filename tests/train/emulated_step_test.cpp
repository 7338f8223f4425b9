// SPDX-License-Identifier: Apache-2.0
// Whole training steps on a device that works late and in any order (support/emulated_device.h), with the GPU's kernels
// and NCCL on its streams: every seed trains to the bits of the device that does everything at once, and near the CPU.
#include "train/step.h"

#include <gtest/gtest.h>

#include <cmath>
#include <mutex>

#include "base/random.h"
#include "comm/mesh_groups.h"
#include "config/derived.h"
#include "config/families.h"
#include "plan/name_pattern.h"
#include "plan/run_shape.h"
#include "run/state.h"
#include "support/emulated_ranks.h"
#include "support/gpu.h"
#include "tiny_run.h"

namespace hearth::train {
namespace {

using config::Parallelism;
using enum config::PipelineSchedule;
using test::EmulatedDevice;
using test::Fault;

struct Layout {
  const char* name;
  Parallelism ranks;
  bool has_experts = false;
};

// clang-format off
const std::vector<Layout> kLayoutsOfSteps = {
    {"dp2", {.data_parallel_shard_degree = 2}},
    {"dp2_zero2", {.data_parallel_shard_degree = 2, .zero_stage = 2}},
    {"dp2_zero3", {.data_parallel_shard_degree = 2, .zero_stage = 3}},
    {"hsdp2x2_zero3", {.data_parallel_replicate_degree = 2, .data_parallel_shard_degree = 2, .zero_stage = 3}},
    {"tp2", {.tensor_parallel_degree = 2}},
    {"cp2", {.context_parallel_degree = 2}},
    {"pp2", {.pipeline_parallel_degree = 2}},
    {"pp2_interleaved", {.pipeline_parallel_degree = 2, .pipeline_parallel_schedule = kInterleaved1F1B}},
    {"pp2_zero_bubble", {.pipeline_parallel_degree = 2, .pipeline_parallel_schedule = kInterleavedZeroBubble}},
    {"pp2_tp2_zero3", {.zero_stage = 3, .tensor_parallel_degree = 2, .pipeline_parallel_degree = 2}},
    {"experts", {.data_parallel_shard_degree = 2}, true},
    {"ep2", {.data_parallel_shard_degree = 2, .expert_parallel_degree = 2}, true},
    {"ep2_tp2_zero3",
     {.data_parallel_shard_degree = 2, .zero_stage = 3, .tensor_parallel_degree = 2, .expert_parallel_degree = 2},
     true},
};
// clang-format on

config::RunConfig config_of(const Layout& layout) {
  config::RunConfig c = tiny_config(".");
  c.data.path.clear();
  c.model.vocab_size = 40;
  c.model.dim = 16;
  c.model.n_layers = 4;
  c.model.hidden_dim = 24;
  c.model.enable_weight_tying = layout.ranks.pipeline_parallel_degree > 1;
  c.training.seq_len = 8;
  c.training.local_batch_size = 1;
  c.training.global_batch_size = 4;
  c.memory.loss_chunk_tokens = 5;
  c.parallelism = layout.ranks;
  if (layout.has_experts) {
    config::apply(config::find_family("glm4_moe"), c.model);
    c.model.num_experts = 4;
    c.model.num_shared_experts = 1;
    c.model.n_dense_layers = 1;
    c.model.moe_aux_loss_coeff = 0.1;
    c.model.route_norm = c.model.attention_gate = true;
  }
  if (layout.ranks.pipeline_parallel_degree > 1) {
    c.parallelism.pipeline_parallel_microbatch_size = 1;
    c.training.local_batch_size = 4;
  }
  return c;
}

data::StepBatch random_batch(const config::RunConfig& c, int64_t data_rank, int64_t step) {
  data::StepBatch result;
  const RandomKey key = random_key(static_cast<uint64_t>(100 * data_rank + step), "emulated steps");
  uint64_t drawn = 0;
  for (int64_t i = 0; i < config::accumulation_steps(c); ++i) {
    data::Batch batch;
    batch.B = config::micro_batch_size(c);
    batch.S = c.training.seq_len;
    for (int64_t t = 0; t < batch.B * batch.S; ++t) {
      batch.tokens.push_back(static_cast<int32_t>(random_u64(key, drawn++) % 40));
      batch.labels.push_back(random_u64(key, drawn++) % 5 == 0 ? data::kIgnore : batch.tokens.back());
    }
    for (int64_t b = 0; b < batch.B; ++b) batch.document_starts.push_back(static_cast<int32_t>(b * batch.S));
    result.micro_batches.push_back(std::move(batch));
  }
  return result;
}

// Rank 0's losses and norms of two steps, and its masters after them.
using Numbers = std::vector<double>;

Numbers steps_of(const config::RunConfig& c, comm::Group& world, at::Device device) {
  const c10::InferenceMode no_gradients;
  const plan::RunShape shape = plan::run_shape(c, {});
  const Parallelism& ranks = c.parallelism;
  const int64_t key_ranks =
      plan::model_part(shape.model, {0, ranks.tensor_parallel_degree}, ranks.context_parallel_degree).key_ranks;
  const comm::MeshGroups groups(world, ranks.degrees(), {shape.model.tied, key_ranks});
  const plan::PipelinePlan pipeline = plan::pipeline_plan(c, shape.model.L());
  const plan::TensorPart part{groups.place().tp, ranks.tensor_parallel_degree};
  const plan::ExpertPart experts{groups.experts() == nullptr ? 0 : groups.experts()->rank(),
                                 ranks.expert_parallel_degree};
  const plan::ParameterPlan parameters =
      plan::parameter_plan(shape.model, part, pipeline.stages_of(groups.place().pp), experts);
  parallel::ShardedWeights weights(parameters, shape.precision, groups.loss(),
                                   parallel::ShardedWeights::Mode::kTraining, plan::trained_parameters({}, parameters),
                                   plan::sharding_of(c), device, {},
                                   {groups.tensor(), groups.pipeline(), groups.embedding(), groups.same_experts()});
  optim::ShardedOptimizer optimizer(c.optimizer, weights);
  model::Transformer model(plan::model_part(shape.model, part, ranks.context_parallel_degree, experts), parameters,
                           config::micro_batch_size(c), c.training.seq_len,
                           {.dtype = shape.precision.compute,
                            .loss_chunk_tokens = c.memory.loss_chunk_tokens,
                            .training = true,
                            .device = device,
                            .tensor = groups.tensor(),
                            .context = {groups.heads(), groups.keys()},
                            .experts = groups.experts(),
                            .pipeline = groups.pipeline(),
                            .pipeline_plan = pipeline});
  TrainStep step(model, weights, optimizer, step_options(c));
  run::initialize_weights(weights, 0);
  const int64_t data_rank = groups.place().dp_replicate * ranks.data_parallel_shard_degree + groups.place().dp_shard;
  Numbers numbers;
  for (int64_t t = 1; t <= 2; ++t) {
    const StepResult result = step.run(random_batch(c, data_rank, t), t, 1e-2).result();
    numbers.push_back(result.loss);
    numbers.push_back(result.grad_norm);
  }
  for (int64_t u = 0; u < weights.num_units(); ++u) {
    const std::vector<double> masters = ops::to_doubles(weights.master(u));
    numbers.insert(numbers.end(), masters.begin(), masters.end());
  }
  return numbers;
}

Numbers on_devices(const Layout& layout, uint64_t seed, Fault fault = Fault::kNone) {
  const config::RunConfig c = config_of(layout);
  const ops::KernelSet before =
      ops::use_kernels({EmulatedDevice::late(hearth_gpu_kernels()), at::kPrivateUse1, test::product_of_scaled_rows});
  Numbers numbers;
  test::run_emulated_ranks({.ranks = c.parallelism.ranks(), .seed = seed, .fault = fault},
                           [&](comm::Group& group, at::Device device) {
                             Numbers mine = steps_of(c, group, device);
                             if (group.rank() == 0) numbers = std::move(mine);
                           });
  ops::use_kernels(before);
  return numbers;
}

Numbers on_the_host(const Layout& layout) {
  const config::RunConfig c = config_of(layout);
  Numbers numbers;
  comm::run_ranks(c.parallelism.ranks(), 60, [&](comm::Group& group) {
    Numbers mine = steps_of(c, group, at::kCPU);
    if (group.rank() == 0) numbers = std::move(mine);
  });
  return numbers;
}

class EmulatedSteps : public testing::TestWithParam<size_t> {};

// A seed has one of the layouts, so 20 seeds try each one twice.
TEST_P(EmulatedSteps, HaveTheBitsOfADeviceThatDoesEverythingAtOnce) {
  const Layout& layout = kLayoutsOfSteps[GetParam()];
  const Numbers at_once = on_devices(layout, 0), host = on_the_host(layout);
  ASSERT_EQ(at_once.size(), host.size());
  for (size_t i = 0; i < host.size(); ++i) ASSERT_NEAR(at_once[i], host[i], 1e-4 * std::max(1.0, std::abs(host[i])));
  for (uint64_t seed = 1 + GetParam(); seed <= test::num_seeds(); seed += kLayoutsOfSteps.size())
    ASSERT_EQ(on_devices(layout, seed), at_once) << seed;
}

INSTANTIATE_TEST_SUITE_P(With, EmulatedSteps, testing::Range<size_t>(0, kLayoutsOfSteps.size()),
                         [](const auto& info) { return kLayoutsOfSteps[info.param].name; });

// A pipeline has a stream of its own, so it has more orders. Ranks that read a result too early would disagree about
// the step and wait for each other: comm/emulated_device_test.cpp has that fault.
class FaultsOfSteps : public testing::TestWithParam<Fault> {};

TEST_P(FaultsOfSteps, AreFoundInAPipeline) {
  const Layout layout = {"pp2", {.pipeline_parallel_degree = 2}};
  const Numbers expected = on_devices(layout, 0);
  const int64_t shown =
      test::seeds_that_show(8, [&](uint64_t seed) { return on_devices(layout, seed, GetParam()) == expected; });
  EXPECT_GE(shown, 1) << "of 8 seeds";
}

INSTANTIATE_TEST_SUITE_P(Of, FaultsOfSteps,
                         testing::Values(Fault::kNoWaitForTheCaller, Fault::kNoWaitForTheTransfer,
                                         Fault::kMarkOfTheWrongStream, Fault::kFreedForAnotherStream));

}  // namespace
}  // namespace hearth::train
