// SPDX-License-Identifier: Apache-2.0
// Steps with a recorded forward and backward, compared with the same steps without a graph. On the host a graph is its
// function: the next batch must be put where the recorded work reads.
#include "train/micro_batch_graph.h"

#include <gtest/gtest.h>

#include "base/random.h"
#include "comm/group.h"
#include "comm/ranks.h"
#include "ops/gpu/graph.h"
#include "ops/tensor.h"
#include "run/state.h"
#include "support/gpu.h"
#include "tiny_run.h"
#include "train/step.h"

namespace hearth::train {
namespace {

constexpr int64_t kGraphB = 2, kGraphS = 16, kGraphSteps = 4;

data::StepBatch step_batch(int64_t step, int64_t micro_batches, bool masked) {
  data::StepBatch result;
  for (int64_t i = 0; i < micro_batches; ++i) {
    const RandomKey key = random_key(7, fmt::format("{} {}", step, i));
    data::Batch batch;
    batch.B = kGraphB;
    batch.S = kGraphS;
    for (uint64_t t = 0; t < kGraphB * kGraphS; ++t) {
      batch.tokens.push_back(static_cast<int32_t>(random_u64(key, 3 * t) % 40));
      const bool hidden = masked && random_u64(key, 3 * t + 2) % 4 == 0;
      batch.labels.push_back(hidden ? data::kIgnore : static_cast<int32_t>(random_u64(key, 3 * t + 1) % 40));
      if (i % 2 == 1) batch.weights.push_back(0.5F + static_cast<float>(t % 3));
    }
    result.micro_batches.push_back(std::move(batch));
  }
  return result;
}

struct Outcome {
  std::vector<double> losses, norms;
  std::vector<double> weights;
};

struct GraphCase {
  int64_t micro_batches = 1;
  bool masked = false, reproducible = false, frozen = false;
  int64_t ranks = 1;  // of data parallel, with ZeRO-1
};

Outcome outcome_of_rank(comm::Group& group, at::Device device, const GraphCase& c, bool graph) {
  config::Model m = tiny_config(".").model;
  m.vocab_size = 40;
  const plan::ModelShape shape = plan::model_shape(m, 0);
  const plan::ParameterPlan plan = plan::parameter_plan(shape);
  const c10::InferenceMode no_gradients;
  plan::Precision precision(DType::kFloat32);
  precision.compute = DType::kBFloat16;
  std::vector<bool> trained(plan.parameters.size(), true);
  trained.front() = !c.frozen;
  parallel::ShardedWeights weights(plan, precision, group, parallel::ShardedWeights::Mode::kTraining, trained,
                                   {.reproducible = c.reproducible}, device);
  optim::ShardedOptimizer optimizer({}, weights);
  model::Transformer model(shape, plan, kGraphB, kGraphS,
                           {.dtype = precision.compute, .loss_chunk_tokens = 12, .training = true, .device = device});
  run::initialize_weights(weights, 3);
  StepOptions options;
  options.max_norm = 1;
  options.z_factor = 1e-3;
  options.graph = graph;
  TrainStep step(model, weights, optimizer, options);
  Outcome outcome;
  for (int64_t t = 1; t <= kGraphSteps; ++t) {
    const StepResult result = step.run(step_batch(t + 100 * group.rank(), c.micro_batches, c.masked), t, 1e-2).result();
    outcome.losses.push_back(result.loss);
    outcome.norms.push_back(result.grad_norm);
  }
  for (int64_t unit = 0; unit < weights.num_units(); ++unit)
    for (const double w : ops::to_doubles(weights.master(unit))) outcome.weights.push_back(w);
  return outcome;
}

// The result is that of rank 0.
Outcome outcome_of(at::Device device, const GraphCase& c, bool graph) {
  if (c.ranks == 1) return outcome_of_rank(*comm::single(), device, c, graph);
  Outcome outcome;
  comm::run_ranks(c.ranks, 60, [&](comm::Group& group) {
    Outcome of_rank = outcome_of_rank(group, device, c, graph);
    if (group.rank() == 0) outcome = std::move(of_rank);
  });
  return outcome;
}

class StepsFromAGraph : public testing::TestWithParam<test::GpuKind> {
 protected:
  void compare(const GraphCase& c) {
    const test::TestGpu gpu(GetParam());
    if (GetParam() == test::GpuKind::kReal) ops::open_graphs();
    const Outcome plain = outcome_of(gpu.device(), c, false), graph = outcome_of(gpu.device(), c, true);
    EXPECT_EQ(graph.losses, plain.losses);
    EXPECT_EQ(graph.norms, plain.norms);
    EXPECT_EQ(graph.weights, plain.weights);
    EXPECT_NE(plain.losses.front(), plain.losses.back());
  }
};

TEST_P(StepsFromAGraph, AreTheSameToTheBit) {
  HEARTH_NEEDS_GPU(GetParam());
  compare({});
}

TEST_P(StepsFromAGraph, AreTheSameWithSeveralMicroBatchesSomeOfThemWeighted) {
  HEARTH_NEEDS_GPU(GetParam());
  compare({.micro_batches = 3});
}

TEST_P(StepsFromAGraph, AreTheSameWhereSumsAreTakenInPairsAndAParameterIsFrozen) {
  HEARTH_NEEDS_GPU(GetParam());
  compare({.micro_batches = 4, .reproducible = true, .frozen = true});
}

// Ranks gather before the recorded work and reduce after it. Those of a real GPU need NCCL and a GPU each.
TEST_P(StepsFromAGraph, OfSeveralRanksAreTheSameToo) {
  if (GetParam() == test::GpuKind::kReal) GTEST_SKIP() << "needs a GPU for each rank";
  compare({.micro_batches = 2, .ranks = 2});
  compare({.micro_batches = 2, .reproducible = true, .ranks = 2});
}

// The head groups positions differently, and its matrix's gradient is summed in another order.
TEST_P(StepsFromAGraph, AreNearlyTheSameWhereSomeLabelsDoNotCount) {
  HEARTH_NEEDS_GPU(GetParam());
  const test::TestGpu gpu(GetParam());
  if (GetParam() == test::GpuKind::kReal) ops::open_graphs();
  const GraphCase c = {.micro_batches = 2, .masked = true};
  const Outcome plain = outcome_of(gpu.device(), c, false), graph = outcome_of(gpu.device(), c, true);
  for (size_t t = 0; t < kGraphSteps; ++t) {
    EXPECT_NEAR(graph.losses[t], plain.losses[t], 2e-3 * plain.losses[t]);
    EXPECT_NEAR(graph.norms[t], plain.norms[t], 2e-2 * plain.norms[t]);
  }
}

HEARTH_ON_EACH_GPU(StepsFromAGraph);

}  // namespace
}  // namespace hearth::train
