// SPDX-License-Identifier: Apache-2.0
// A run that predicts hidden tokens from both sides (masked_lm).
#include <ATen/ops/equal.h>
#include <c10/core/InferenceMode.h>
#include <gtest/gtest.h>

#include <cmath>
#include <span>
#include <vector>

#include "comm/group.h"
#include "model/transformer.h"
#include "ops/tensor.h"
#include "parallel/sharded_weights.h"
#include "plan/run_shape.h"
#include "run/start.h"
#include "run/state.h"
#include "support/distance.h"
#include "tiny_run.h"
#include "train/step.h"

namespace hearth::train {
namespace {

config::RunConfig masked(const Path& folder, const std::string& name) {
  config::RunConfig c = tiny_config(folder);
  c.job.dump_folder = name;
  c.model.vocab_size = 259;  // a row for the mask
  c.objective.kind = config::ObjectiveKind::kMaskedLm;
  c.objective.mask_id = 258;
  c.validation.freq = 6;
  return c;
}

struct MaskedRun : TinyData {};

// Every row hides a different number of positions, so ranks and micro-batches count differently.
TEST_F(MaskedRun, LearnsAndHasOneLossAndGradientHoweverAStepIsCut) {
  const auto records =
      expect_one_curve_however_a_step_is_cut([this](const std::string& name) { return masked(scratch, name); }, 60, 15);
  EXPECT_LT(*records.back().loss, 0.7 * *records[1].loss);
}

TEST_F(MaskedRun, AfterAStopTheNumbersAreThoseOfAnUninterruptedRun) {
  const config::RunConfig whole = masked(scratch, "whole");
  const auto expected = train(whole);
  config::RunConfig parts = masked(scratch, "parts");
  for (const int64_t steps : {5, 12}) {
    parts.training.steps = steps;
    train(parts);
  }
  expect_same_training(metrics::read_metrics(parts.run_folder() / "metrics.jsonl"), expected);
  EXPECT_EQ(tensors_of(step_of(parts, 12)), tensors_of(step_of(whole, 12)));
}

// The held-out loss hides the same positions at every measurement.
TEST_F(MaskedRun, ValidationHidesTheSamePositionsEveryTime) {
  config::RunConfig c = masked(scratch, "run");
  c.optimizer.lr = 0;
  std::vector<double> losses;
  for (const metrics::StepRecord& record : train(c))
    if (record.validation_loss) losses.push_back(*record.validation_loss);
  ASSERT_EQ(losses.size(), 3u);
  EXPECT_EQ(losses[0], losses[1]);
  EXPECT_EQ(losses[0], losses[2]);
}

// A short window is padded. The padding's content must not change the model's output for the text.
TEST_F(MaskedRun, PaddingIsSeenByNoToken) {
  const plan::ModelShape shape = plan::model_shape(masked(scratch, "run"), plan::DataFacts{.vocab_size = 258});
  const plan::ParameterPlan plan = plan::parameter_plan(shape);
  const auto group = comm::single();
  const c10::InferenceMode no_gradients;
  parallel::ShardedWeights weights(plan, DType::kFloat64, *group, parallel::ShardedWeights::Mode::kInference);
  run::initialize_weights(weights, 3);
  const auto loss_of = [&](int64_t S, int32_t padding) {
    data::Batch batch;
    batch.B = 1;
    batch.S = S;
    batch.row_tokens = {5};
    batch.document_starts = {0};
    batch.tokens = {10, 258, 30, 258, 50};
    batch.labels = {data::kIgnore, 20, data::kIgnore, 40, data::kIgnore};
    batch.tokens.resize(static_cast<size_t>(S), padding);
    batch.labels.resize(static_cast<size_t>(S), data::kIgnore);
    model::Transformer model(shape, plan, 1, S, {.dtype = DType::kFloat64, .loss_chunk_tokens = 64});
    return model.loss(weights, to_tensors(batch)).loss;
  };
  const double alone = loss_of(5, 0);
  EXPECT_NEAR(loss_of(9, 0), alone, 1e-12);
  EXPECT_NEAR(loss_of(9, 77), alone, 1e-12);
}

// Nor does it count in the loads of experts, or in the losses of their routers.
TEST_F(MaskedRun, PaddingIsSeenByNoRouter) {
  config::RunConfig c = masked(scratch, "run");
  c.model.num_experts = 4;
  c.model.moe_aux_loss_coeff = 0.5;
  c.model.moe_z_loss_coeff = 0.1;
  const plan::ModelShape shape = plan::model_shape(c, plan::DataFacts{.vocab_size = 258});
  const plan::ParameterPlan plan = plan::parameter_plan(shape);
  const auto group = comm::single();
  const c10::InferenceMode no_gradients;
  struct Found {
    std::vector<at::Tensor> gradients;
    at::Tensor loads, sums;
  };
  const auto step_of = [&](int64_t S) {
    parallel::ShardedWeights weights(plan, DType::kFloat64, *group, parallel::ShardedWeights::Mode::kTraining);
    run::initialize_weights(weights, 3);
    data::Batch batch;
    batch.B = 1;
    batch.S = S;
    batch.row_tokens = {5};
    batch.document_starts = {0};
    batch.tokens = {10, 258, 30, 258, 50};
    batch.labels = {data::kIgnore, 20, data::kIgnore, 40, data::kIgnore};
    batch.tokens.resize(static_cast<size_t>(S), 77);
    batch.labels.resize(static_cast<size_t>(S), data::kIgnore);
    model::Transformer model(shape, plan, 1, S, {.dtype = DType::kFloat64, .loss_chunk_tokens = 64, .training = true});
    const at::Tensor routers_LX = model.no_router_metrics(), sums_12 = ops::zeros({1, 2}, DType::kFloat64);
    const model::LossScale scale{.scale_1 = ops::from_float64(std::vector<double>{0.5}),
                                 .per_position = 1 / static_cast<double>(S),
                                 .loads_LE = routers_LX.narrow(1, 3, 4),
                                 .router_sums_L3 = routers_LX.narrow(1, 0, 3)};
    const model::MicroBatch micro = to_tensors(batch);
    weights.begin_step(1);
    model.loss_and_gradient(sums_12, weights, std::span(&micro, 1), std::span(&scale, 1));
    Found found{{}, scale.loads_LE, scale.router_sums_L3};
    for (int64_t unit = 0; unit < weights.num_units(); ++unit)
      found.gradients.push_back(weights.gradient_shard(unit).clone());
    return found;
  };
  const Found alone = step_of(5), padded = step_of(9);
  EXPECT_TRUE(at::equal(padded.loads, alone.loads));
  EXPECT_LT(test::relative_distance(padded.sums, alone.sums), 1e-12);
  for (size_t unit = 0; unit < alone.gradients.size(); ++unit)
    EXPECT_LT(test::relative_distance(padded.gradients[unit], alone.gradients[unit]), 1e-10) << unit;
}

TEST_F(MaskedRun, StepsInWhichNothingIsHiddenAreLeftOutAndTooManyOfThemAreTheUsersToMend) {
  config::RunConfig c = masked(scratch, "run");
  c.validation.freq = 0;
  c.objective.mlm_probability = 1e-9;
  c.objective.at_least_one_mask = false;
  c.numerics.skip_limit = 2;
  const Error error = error_of([&] { run_training(c, {}); });
  EXPECT_EQ(error.code(), ExitCode::kUser);
  EXPECT_EQ(error.message(), "step 3: no label counts; numerics.skip_limit = 2 updates in a row were left out");
}

TEST_F(MaskedRun, AMaskThatStandsForTextIsDoubted) {
  config::RunConfig c = masked(scratch, "run");
  const auto doubts = [&](int64_t id) {
    c.objective.mask_id = id;
    run::Run run = run::open_run(c);
    std::string found;
    for (const std::string& note : run::find_start(run, comm::single()->control()).warnings)
      if (note.starts_with("objective.mask_id")) found += note.substr(0, note.find(','));
    return found;
  };
  EXPECT_EQ(doubts(97), "objective.mask_id = 97 is the token of the text \"a\"");  // of bytes
  EXPECT_EQ(doubts(256) + doubts(257) + doubts(258), "");
}

TEST_F(MaskedRun, ARunWithoutAMaskIsRefusedBeforeItStarts) {
  config::RunConfig c = masked(scratch, "run");
  c.objective.mask_id = -1;
  EXPECT_EQ(error_of([&] { run_training(c, {}); }).message(),
            "the tokenizer has no mask token, and the run file names no token");
  EXPECT_FALSE(path_exists(c.run_folder() / "metrics.jsonl"));
}

}  // namespace
}  // namespace hearth::train
