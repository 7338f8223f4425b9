// SPDX-License-Identifier: Apache-2.0
// The loss of a step is the sum over all its counted labels divided by their total weight. The test is exact: the model
// is so small that only float64 rounding may differ.
#include "train/step.h"

#include <ATen/TensorOperators.h>
#include <ATen/ops/log_softmax.h>
#include <ATen/ops/logsumexp.h>
#include <gtest/gtest.h>

#include <cmath>

#include "base/random.h"
#include "comm/ranks.h"
#include "run/state.h"
#include "tiny_run.h"

namespace hearth::train {
namespace {

constexpr int64_t kStepB = 2, kStepS = 8, kMicroBatches = 3;

struct Shape {
  plan::ModelShape model;
  plan::ParameterPlan plan;
};

Shape tiny_shape() {
  config::Model m = tiny_config(".").model;
  m.vocab_size = 40;
  const plan::ModelShape shape = plan::model_shape(m, 0);
  return {shape, plan::parameter_plan(shape)};
}

// The parts of a training step.
struct Training {
  Training(const Shape& s, comm::Group& group)
      : weights(s.plan, DType::kFloat64, group, parallel::ShardedWeights::Mode::kTraining),
        optimizer({}, weights),
        model(s.model, s.plan, kStepB, kStepS, {.dtype = DType::kFloat64, .loss_chunk_tokens = 5, .training = true}) {
    run::initialize_weights(weights, 3);
  }
  const c10::InferenceMode no_gradients;
  parallel::ShardedWeights weights;
  optim::ShardedOptimizer optimizer;
  model::Transformer model;
};

// Micro-batch `index` of a step. Each has a different number of labels that count, with or without weights.
data::Batch micro_batch(uint64_t index, bool weighted) {
  const RandomKey key = random_key(5, fmt::format("step test {}", index));
  data::Batch batch;
  batch.B = kStepB;
  batch.S = kStepS;
  for (uint64_t i = 0; i < kStepB * kStepS; ++i) {
    batch.tokens.push_back(static_cast<int32_t>(random_u64(key, 3 * i) % 40));
    const bool counts = random_u64(key, 3 * i + 1) % 8 > index;
    batch.labels.push_back(counts ? static_cast<int32_t>(random_u64(key, 3 * i + 2) % 40) : data::kIgnore);
    if (weighted) batch.weights.push_back(0.25F * static_cast<float>(1 + i % 5));
  }
  return batch;
}

// A step's loss by ATen: log-softmax of the logits, at the labels, weighted, divided by the total weight.
double loss_by_aten(const Shape& s, parallel::ShardedWeights& weights, bool weighted) {
  model::Transformer model(s.model, s.plan, kStepB, kStepS, {.dtype = DType::kFloat64, .loss_chunk_tokens = 64});
  double sum = 0, counted = 0;
  for (uint64_t index = 0; index < kMicroBatches; ++index) {
    const data::Batch batch = micro_batch(index, weighted);
    model.loss(weights, to_tensors(batch));
    const at::Tensor log_p_TV = at::log_softmax(model.logits(weights), 1);
    for (int64_t t = 0; t < kStepB * kStepS; ++t) {
      const auto i = static_cast<size_t>(t);
      if (batch.labels[i] == data::kIgnore) continue;
      const double weight = weighted ? static_cast<double>(batch.weights[i]) : 1.0;
      sum -= weight * log_p_TV[t][batch.labels[i]].item<double>();
      counted += weight;
    }
  }
  return sum / counted;
}

TEST(Step, TheLossIsTheMeanOverAllCountedLabelsOfAllMicroBatchesAndRanks) {
  const Shape s = tiny_shape();
  for (const bool weighted : {false, true}) {
    for (const int64_t ranks : {1, 3}) {  // three micro-batches on one rank, or one on each of three ranks
      comm::run_ranks(ranks, 60, [&](comm::Group& group) {
        Training training(s, group);
        auto& [no_gradients, weights, optimizer, model] = training;
        const double expected = loss_by_aten(s, weights, weighted);

        data::StepBatch mine;
        for (uint64_t index = 0; index < kMicroBatches; ++index)
          if (ranks == 1 || static_cast<int64_t>(index) == group.rank())
            mine.micro_batches.push_back(micro_batch(index, weighted));
        const StepResult result = TrainStep(model, weights, optimizer, {.max_norm = 1}).run(mine, 1, 1e-3).result();
        EXPECT_NEAR(result.loss, expected, 1e-13 * expected) << "weighted " << weighted << ", ranks " << ranks;
        EXPECT_TRUE(result.applied);
      });
    }
  }
}

// numerics.loss_average = config::LossAverage::kPerRank: micro-batches of few labels weigh as much as those of many.
TEST(Step, PerRankIsTheMeanOfTheMicroBatchesOwnMeans) {
  const Shape s = tiny_shape();
  for (const int64_t ranks : {1, 3}) {
    comm::run_ranks(ranks, 60, [&](comm::Group& group) {
      Training training(s, group);
      auto& [no_gradients, weights, optimizer, model] = training;
      data::StepBatch mine;
      double expected = 0;
      for (uint64_t index = 0; index < kMicroBatches; ++index) {
        const data::Batch batch = micro_batch(index, true);
        expected += model.loss(weights, to_tensors(batch)).loss / counted_weight(batch) / kMicroBatches;
        if (ranks == 1 || static_cast<int64_t>(index) == group.rank()) mine.micro_batches.push_back(batch);
      }
      const StepResult result = TrainStep(model, weights, optimizer, {.per_rank = true}).run(mine, 1, 0).result();
      EXPECT_NEAR(result.loss, expected, 1e-13 * expected) << ranks;
      EXPECT_GT(std::abs(result.loss - loss_by_aten(s, weights, true)), 1e-3) << "the two means do not differ here";
    });
  }
}

// The gradient is the gradient of the same mean. A common weight w of all labels cancels in a mean, so the norm does
// not change. Along the gradient the loss falls at the rate of its norm.
TEST(Step, TheGradientIsThatOfTheMean) {
  const Shape s = tiny_shape();
  const auto group = comm::single();
  Training training(s, *group);
  parallel::ShardedWeights& weights = training.weights;
  data::StepBatch batch;
  for (uint64_t index = 0; index < kMicroBatches; ++index) batch.micro_batches.push_back(micro_batch(index, true));
  // With learning rate 0 the weights do not change, and the gradient can be read after the step.
  const StepResult result = TrainStep(training.model, weights, training.optimizer, {}).run(batch, 1, 0).result();
  const auto moved_loss = [&](double step) {
    for (int64_t u = 0; u < weights.num_units(); ++u) weights.master(u).add_(weights.gradient_shard(u), step);
    weights.masters_changed();
    const double loss = loss_by_aten(s, weights, true);
    for (int64_t u = 0; u < weights.num_units(); ++u) weights.master(u).sub_(weights.gradient_shard(u), step);
    weights.masters_changed();
    return loss;
  };
  constexpr double kStep = 1e-5;
  const double slope = (moved_loss(kStep) - moved_loss(-kStep)) / (2 * kStep);
  EXPECT_NEAR(slope, result.grad_norm * result.grad_norm, 1e-7 * slope);
}

// The mean of z^2 over all counted labels, by ATen.
TEST(Step, TheZLossIsAveragedLikeTheLossAndIsPartOfWhatIsDifferentiated) {
  const Shape s = tiny_shape();
  const auto group = comm::single();
  Training training(s, *group);
  auto& [no_gradients, weights, optimizer, model] = training;
  data::StepBatch batch;
  double z_squares = 0, counted = 0;
  for (uint64_t index = 0; index < kMicroBatches; ++index) {
    batch.micro_batches.push_back(micro_batch(index, false));
    model.loss(weights, to_tensors(batch.micro_batches.back()));
    const at::Tensor z_T = at::logsumexp(model.logits(weights), {1});
    for (int64_t t = 0; t < kStepB * kStepS; ++t) {
      if (batch.micro_batches.back().labels[static_cast<size_t>(t)] == data::kIgnore) continue;
      z_squares += z_T[t].item<double>() * z_T[t].item<double>();
      ++counted;
    }
  }
  const StepResult without = TrainStep(model, weights, optimizer, {}).run(batch, 1, 0).result();
  const StepResult with = TrainStep(model, weights, optimizer, {.z_factor = 0.1}).run(batch, 1, 0).result();
  EXPECT_TRUE(without.loss_parts.empty());
  EXPECT_NEAR(with.loss_parts.at("z_loss"), 0.1 * z_squares / counted, 1e-13);
  EXPECT_EQ(with.loss, without.loss);
  EXPECT_NE(with.grad_norm, without.grad_norm);
}

TEST(Step, WhatDoesNotCountWeighsNothing) {
  data::Batch batch;
  batch.labels = {3, data::kIgnore, 0, data::kIgnore, 7};
  EXPECT_EQ(counted_weight(batch), 3);
  batch.weights = {0.5F, 100, 0.25F, 100, 2};
  EXPECT_EQ(counted_weight(batch), 2.75);
}

// Two trainings, one with a step without counted labels between the others.
TEST(Step, WhereNoLabelCountsNothingHappens) {
  const Shape s = tiny_shape();
  const auto masters_after = [&](bool with_empty_step) {
    const auto group = comm::single();
    Training t(s, *group);
    TrainStep step(t.model, t.weights, t.optimizer, {});
    data::StepBatch batch, empty;
    for (uint64_t i = 0; i < kMicroBatches; ++i) batch.micro_batches.push_back(micro_batch(i, true));
    empty = batch;
    for (data::Batch& micro : empty.micro_batches) micro.labels.assign(micro.labels.size(), data::kIgnore);
    EXPECT_TRUE(step.run(batch, 1, 1e-2).result().applied);
    if (with_empty_step) {
      const StepResult result = step.run(empty, 2, 1e-2).result();
      EXPECT_FALSE(result.counted);
      EXPECT_FALSE(result.applied);
      EXPECT_TRUE(std::isnan(result.loss));
    }
    EXPECT_TRUE(step.run(batch, 2, 1e-2).result().counted);
    std::vector<double> all;
    for (int64_t unit = 0; unit < t.weights.num_units(); ++unit)
      for (const double w : ops::to_doubles(t.weights.master(unit))) all.push_back(w);
    return all;
  };
  EXPECT_EQ(masters_after(true), masters_after(false));
}

}  // namespace
}  // namespace hearth::train
