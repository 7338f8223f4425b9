// SPDX-License-Identifier: Apache-2.0
// A training with Muon: the same bits after a resume, one momentum for each matrix, and what a step leaves alone.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <limits>

#include "comm/group.h"
#include "ops/step_decision.h"
#include "ops/tensor.h"
#include "optim/clip.h"
#include "optim/optimizer.h"
#include "plan/muon.h"
#include "plan/name_pattern.h"
#include "plan/run_shape.h"
#include "plan/step_time.h"
#include "plan/tensor_names.h"
#include "support/python.h"
#include "tiny_run.h"

namespace hearth::train {
namespace {

using testing::HasSubstr;

struct MuonRun : TinyData {
  config::RunConfig named(const std::string& name) const {
    config::RunConfig c = tiny_config(scratch);
    c.job.dump_folder = name;
    c.optimizer.name = config::OptimizerName::kMuon;
    return c;
  }
};

bool is_block_matrix(const std::string& name) {
  return name.starts_with("layers.") && name.find("norm") == std::string::npos;
}

// The Euclidean norm of a tensor in float32.
double norm_of(const std::vector<std::byte>& bytes) {
  std::vector<float> values(bytes.size() / sizeof(float));
  std::memcpy(values.data(), bytes.data(), bytes.size());
  double squares = 0;
  for (const float value : values) squares += static_cast<double>(value) * static_cast<double>(value);
  return std::sqrt(squares);
}

TEST_F(MuonRun, LearnsAndAResumeHasTheSameBits) {
  for (const auto& [name, compute, moments] : {std::tuple("float32", DType::kFloat32, DType::kFloat32),
                                               std::tuple("bfloat16", DType::kBFloat16, DType::kFloat32),
                                               std::tuple("moments", DType::kBFloat16, DType::kBFloat16)}) {
    config::RunConfig whole = named(std::string("whole-") + name), parts = named(std::string("parts-") + name);
    for (config::RunConfig* c : {&whole, &parts}) {
      c->training.mixed_precision_param = compute;
      c->optimizer.moments_dtype = moments;
    }
    const auto expected = train(whole);
    EXPECT_LT(*expected.back().loss, 0.85 * *expected.front().loss) << name;
    for (const int64_t steps : {3, 7, 12}) {
      parts.training.steps = steps;
      train(parts);
    }
    expect_same_training(metrics::read_metrics(parts.run_folder() / "metrics.jsonl"), expected);
    EXPECT_EQ(tensors_of(step_of(parts, 12)), tensors_of(step_of(whole, 12))) << name;
  }
}

TEST_F(MuonRun, ACheckpointHasOneMomentumForAMatrixAndAdamWsMomentsForTheRest) {
  config::RunConfig c = named("run");
  c.training.steps = 4;
  c.checkpoint.freeze = {"layers.0.attention.wq"};
  train(c);
  const auto tensors = tensors_of(step_of(c, 4));
  for (const plan::Parameter& p : plan::parameter_plan(plan::model_shape(c.model, 258)).parameters) {
    const bool frozen = p.name == "layers.0.attention.wq.weight";
    const auto has = [&](const std::string& state) {
      return tensors.contains("optimizer.state." + p.name + "." + state);
    };
    EXPECT_EQ(has("momentum_buffer"), is_block_matrix(p.name) && !frozen) << p.name;
    for (const char* of_adamw : {"exp_avg", "exp_avg_sq", "step"})
      EXPECT_EQ(has(of_adamw), !is_block_matrix(p.name)) << p.name;
  }
}

// As torchtitan flattens them.
TEST(MuonNames, AreTorchs) {
  HEARTH_NEEDS_ORACLE();
  const test::CommandResult result = test::run_python("tests/train/muon_state_names.py");
  EXPECT_EQ(result.output, plan::momentum_name("0.weight") + "\n");
}

TEST_F(MuonRun, WhatIsFrozenKeepsItsBitsAndABranchMayBeginAnew) {
  config::RunConfig first = named("first");
  train(first);
  const auto before = tensors_of(step_of(first, 12));
  config::RunConfig c = named("branch");
  c.checkpoint.initial_load_path = "first/checkpoints/step-00000012";
  c.checkpoint.initial_load_model_only = false;
  c.checkpoint.fresh = {"layers.1.feed_forward.w2"};
  c.training.steps = 13;
  c.checkpoint.interval = 1;
  train(c);
  const auto after = tensors_of(step_of(c, 13));
  // One gradient's share of 0.05 is less than the mean of twelve.
  const std::string fresh = "optimizer.state.layers.1.feed_forward.w2.weight.momentum_buffer";
  const std::string continued = "optimizer.state.layers.1.feed_forward.w1.weight.momentum_buffer";
  EXPECT_LT(norm_of(after.at(fresh)), 0.4 * norm_of(before.at(fresh)));
  EXPECT_GT(norm_of(after.at(continued)), 0.8 * norm_of(before.at(continued)));
  config::RunConfig frozen = named("frozen");
  frozen.checkpoint.initial_load_path = "first/checkpoints/step-00000012";
  frozen.checkpoint.freeze = {"layers.0"};
  frozen.training.steps = 4;
  train(frozen);
  const auto kept = tensors_of(step_of(frozen, 4));
  for (const auto& [name, bytes] : before) {
    if (name.starts_with("optimizer")) continue;
    EXPECT_EQ(kept.at(name) == bytes, name.starts_with("layers.0.")) << name;
  }
}

TEST_F(MuonRun, AnotherOptimizersCheckpointIsRefused) {
  config::RunConfig c = named("run");
  c.training.steps = 4;
  train(c);
  c.optimizer.name = config::OptimizerName::kAdamW;
  c.training.steps = 5;
  EXPECT_THAT(error_of([&] { run_training(c, {}); }).what(), HasSubstr("optimizer.name: \"Muon\" -> \"AdamW\""));
}

TEST(MuonMemory, ThePlanIsTheAllocation) {
  config::RunConfig c = tiny_config(".");
  c.model.vocab_size = 300;
  c.optimizer.name = config::OptimizerName::kMuon;
  const auto group = comm::single();
  for (const DType compute : {DType::kFloat32, DType::kBFloat16}) {
    for (const DType moments : {DType::kFloat32, DType::kBFloat16}) {
      for (const std::vector<std::string>& freeze : {std::vector<std::string>{}, {"layers.1", "*.w2"}, {"layers"}}) {
        c.training.mixed_precision_param = compute;
        c.optimizer.moments_dtype = moments;
        c.checkpoint.freeze = freeze;
        const plan::ModelShape shape = plan::model_shape(c, plan::DataFacts{});
        const plan::ParameterPlan parameters = plan::parameter_plan(shape);
        const plan::Precision precision = plan::precision(c);
        const plan::MemoryPlan planned =
            plan::memory_plan(c, shape, parameters, precision, int64_t{1} << 40, 1, /*cpu_threads=*/0);
        parallel::ShardedWeights weights(parameters, precision, *group, parallel::ShardedWeights::Mode::kTraining,
                                         plan::trained_parameters(freeze, parameters), {}, at::kCPU,
                                         plan::muon_matrices(c.optimizer, parameters));
        const optim::ShardedOptimizer optimizer(c.optimizer, weights);
        EXPECT_EQ(weights.memory_bytes(), planned.weights_bytes);
        EXPECT_EQ(optimizer.memory_bytes(), planned.work_bytes);
        EXPECT_EQ(optimizer.memory_bytes() > 0, freeze != std::vector<std::string>{"layers"});
      }
    }
  }
}

TEST(MuonTime, CountsTheProductsOfTheIterations) {
  config::RunConfig c = tiny_config(".");
  c.model.vocab_size = 300;
  const plan::ModelShape shape = plan::model_shape(c, plan::DataFacts{});
  const auto seconds = [&] { return plan::step_time(c, shape, {}, 1, {.gemm_flops = 1, .efficiency = 1}).step_s; };
  const double of_adamw = seconds();
  c.optimizer.name = config::OptimizerName::kMuon;
  // wq, wo: 32 x 32; wk, wv: 16 x 32; w1, w2, w3: 64 x 32. A product takes 2 FLOPs for each of its three sizes.
  const auto of = [](double shorter, double longer) { return 2 * shorter * shorter * (2 * longer + shorter); };
  const double layer = 2 * of(32, 32) + 2 * of(16, 32) + 3 * of(32, 64);
  EXPECT_DOUBLE_EQ(seconds() - of_adamw, 2 * 5 * layer);
  c.optimizer.muon_ns_steps = 3;
  c.checkpoint.freeze = {"layers.0"};
  EXPECT_DOUBLE_EQ(seconds() - of_adamw, 3 * layer);
}

// A gradient with a NaN: neither weights nor state change. The next step changes them.
TEST(MuonStep, ASkippedStepChangesNothing) {
  config::Optimizer config;
  config.name = config::OptimizerName::kMuon;
  config::Model model = tiny_config(".").model;
  model.vocab_size = 40;
  const plan::ParameterPlan plan = plan::parameter_plan(plan::model_shape(model, 0));
  const auto group = comm::single();
  parallel::ShardedWeights weights(plan, DType::kFloat32, *group, parallel::ShardedWeights::Mode::kTraining, {}, {},
                                   at::kCPU, plan::muon_matrices(config, plan));
  run::initialize_weights(weights, 3);
  optim::ShardedOptimizer optimizer(config, weights);
  const auto state = [&] {
    std::vector<std::string> bytes;
    for (int64_t i = 0; i < static_cast<int64_t>(plan.parameters.size()); ++i) {
      const auto owned = weights.owned(i);
      for (const at::Tensor& t : {owned.master, owned.exp_avg, owned.exp_avg_sq, owned.momentum})
        if (t.defined()) bytes.emplace_back(static_cast<const char*>(t.const_data_ptr()), t.nbytes());
    }
    return bytes;
  };
  const ops::StepDecision decision({.on_nan = kernels::Reaction::kSkip, .skip_limit = 5}, at::kCPU);
  const auto step = [&](float gradient) {
    weights.begin_step(1);
    for (int64_t unit = 0; unit < weights.num_units(); ++unit) {
      weights.gradient(unit).fill_(gradient);
      weights.gradient_ready(unit);
    }
    decision.decide(ops::zeros({2}, DType::kFloat64), optim::squared_gradient_norm(weights), 0, 1);
    optimizer.step(1e-2, 1, decision.decision());
    weights.end_step();
  };
  const auto before = state();
  step(std::numeric_limits<float>::quiet_NaN());
  EXPECT_EQ(state(), before);
  step(1);
  const auto after = state();
  for (size_t i = 0; i < before.size(); ++i) EXPECT_NE(after[i], before[i]) << i;
}

}  // namespace
}  // namespace hearth::train
