// SPDX-License-Identifier: Apache-2.0
// Traffic next to the papers' formulas and to counts of single elements that change ranks.
#include "plan/traffic.h"

#include <gtest/gtest.h>

#include <vector>

#include "plan/pipeline_simulation.h"

namespace hearth::plan {
namespace {

constexpr int64_t kB = 2, kS = 24, kA = 3;
const TrafficStep kStep = {.micro_batches = kA, .batch = kB, .seq_len = kS};
const PipelinePlan kWhole = {{}, {{0, 6}}};
const Precision kTypes(DType::kFloat32, DType::kBFloat16, DType::kFloat32, DType::kFloat32);

ModelShape traffic_shape() {
  config::Model model;
  model.dim = 48, model.n_layers = 6, model.n_heads = 12, model.n_kv_heads = 6, model.hidden_dim = 96;
  model.vocab_size = 64;
  return model_shape(model, 0);
}

StepTraffic traffic(const mesh::Degrees& degrees, const Sharding& sharding = {}, const TrafficStep& step = kStep) {
  return step_traffic(traffic_shape(), unit_counts(parameter_plan(traffic_shape())), degrees, sharding, kTypes, step,
                      kWhole, 0);
}

TEST(Traffic, OneRankSendsNothing) {
  for (const int64_t stage : {1, 2, 3}) EXPECT_EQ(traffic({}, {.zero_stage = stage}).total(), 0);
}

// ZeRO (arXiv 1910.02054), section 7: N elements gathered and N reduced, 2 N for stage 3.
TEST(Traffic, StagesOfZeroSendWeightsAndGradientsAsOftenAsTheTableSays) {
  const auto N = static_cast<double>(parameter_plan(traffic_shape()).num_parameters);
  const auto shard = [](int64_t stage, bool reproducible = false) {
    return traffic({.dp_shard = 4}, {.zero_stage = stage, .reproducible = reproducible}).shard;
  };
  EXPECT_DOUBLE_EQ(shard(1), 0.75 * N * (2 + 4));
  EXPECT_DOUBLE_EQ(shard(2), 0.75 * N * (2 + kA * 4));
  EXPECT_DOUBLE_EQ(shard(3), 0.75 * N * (2 * kA * 2 + kA * 4));
  EXPECT_DOUBLE_EQ(shard(1, true), 0.75 * N * (2 + kA * 4));
  EXPECT_DOUBLE_EQ(traffic({.dp_shard = 4}, {.zero_stage = 3, .once = true}).shard, 0.75 * N * (2 * kA * 2 + 4));
  EXPECT_EQ(traffic({.dp_shard = 4}).total(), shard(1));
}

TEST(Traffic, ReplicasAddUpShards) {
  const auto N = static_cast<double>(parameter_plan(traffic_shape()).num_parameters);
  const StepTraffic hsdp = traffic({.dp_replicate = 2, .dp_shard = 4}, {.replicas = 2, .zero_stage = 2});
  EXPECT_DOUBLE_EQ(hsdp.replicate, N / 4 * 4);  // an all-reduce of two ranks: a half there, a half back
  EXPECT_DOUBLE_EQ(hsdp.shard, 0.75 * N * (2 + kA * 4));
  // Weights are shards over cp, too.
  EXPECT_DOUBLE_EQ(traffic({.dp_shard = 2, .cp = 2}).shard, traffic({.dp_shard = 4}).shard);
}

// Sequence parallel (arXiv 2205.05198), section 4.2.2: each of two branches has an all-gather and a reduce-scatter,
// forward and backward, of [T, D]. Its inputs are gathered again for the weights' gradients, in place of being kept.
TEST(Traffic, TensorParallelRanksGatherAndReduceFourTimesALayer) {
  const double sent = 2.0 / 3 * kA * static_cast<double>(kB * kS) * 48 * 2;
  EXPECT_DOUBLE_EQ(traffic({.tp = 3}).tensor, sent * (6 * (8 + 2) + 4));
  EXPECT_EQ(traffic({.tp = 3}).total(), traffic({.tp = 3}).tensor);
  // Zero bubble also gathers the gradients of both outputs again: the first half has them, and the second.
  TrafficStep halves = kStep;
  halves.backward = Backward::kInHalves;
  EXPECT_DOUBLE_EQ(traffic({.tp = 3}, {}, halves).tensor, sent * (6 * (8 + 4) + 4));
  // The gather before wq, wk and wv again; for a whole block also the sum behind wo, and the gather before w1 and w3.
  const std::vector<Recompute> levels = {Recompute::kNone,      Recompute::kNorms, Recompute::kAttention,
                                         Recompute::kAttention, Recompute::kBlock, Recompute::kNone};
  TrafficStep again = kStep;
  again.recompute = levels;
  EXPECT_DOUBLE_EQ(traffic({.tp = 3}, {}, again).tensor, sent * (6 * 10 + 4 + 2 * 1 + 3));
  // tp divides matrices and biases, and not the 13 norms.
  const auto N = static_cast<double>(parameter_plan(traffic_shape()).num_parameters);
  EXPECT_DOUBLE_EQ(traffic({.dp_shard = 2, .tp = 3}).shard, 0.5 * 6 * ((N - 13 * 48) / 3 + 13 * 48));
  ModelShape biased = traffic_shape();
  biased.qkv_bias = biased.qk_norm = true;
  const auto of = [](const ModelShape& shape) {
    return step_traffic(shape, unit_counts(parameter_plan(shape)), {.dp_shard = 2, .tp = 3}, {}, kTypes, kStep, kWhole,
                        0);
  };
  EXPECT_DOUBLE_EQ(of(biased).shard - of(traffic_shape()).shard, 0.5 * 6 * 6 * ((12 + 6 + 6) * 4 / 3.0 + 2 * 4));
  // A norm of all heads adds up two numbers a token, in float32, forward and backward: an all-reduce each.
  ModelShape all_heads = biased;
  all_heads.qk_norm_scope = config::QkNormScope::kAllHeads;
  EXPECT_NEAR(of(all_heads).tensor - of(biased).tensor, 2.0 / 3 * kA * 6 * 2 * 2 * (2 * kB * kS * 4), 1e-3);
}

// Layers of two widths: each matrix of the wider ones counts, and messages do not change.
TEST(Traffic, LayersThatDifferCountEachForItself) {
  ModelShape shape = traffic_shape();
  shape.layers[1].F = shape.layers[4].F = 192;
  const auto of = [](const ModelShape& model) {
    return step_traffic(model, unit_counts(parameter_plan(model)), {.dp_shard = 2, .tp = 3}, {}, kTypes, kStep, kWhole,
                        0);
  };
  EXPECT_DOUBLE_EQ(of(shape).shard - of(traffic_shape()).shard, 0.5 * 6 * 2 * 3 * 48 * 96 / 3);
  EXPECT_EQ(of(shape).tensor, of(traffic_shape()).tensor);
}

// Each element of [S, heads] has a rank by its position, and then one by its head. Two tensor-parallel ranks have 3
// heads of keys and values each: six ranks of a sequence get copies.
TEST(Traffic, UlyssesSendsTheElementsThatChangeRanks) {
  for (const int64_t tp : {1, 2}) {
    for (const int64_t cp : {2, 3, 6}) {
      if (tp == 2 && cp == 2) continue;  // does not divide 3 heads
      int64_t elements = 0;
      for (int64_t heads : {12 / tp, 6 / tp, 6 / tp, 12 / tp}) {  // q, k, v, result
        heads = std::max(heads, cp);
        for (int64_t s = 0; s < kS; ++s)
          for (int64_t h = 0; h < heads; ++h) elements += s * cp / kS != h * cp / heads ? 4 : 0;  // K = 4
      }
      // Forward and backward, over all ranks, in bfloat16.
      const double all = static_cast<double>(elements * kB * kA * 6 * 2 * 2);
      EXPECT_DOUBLE_EQ(traffic({.cp = cp, .tp = tp}).context, all / static_cast<double>(cp)) << cp << " " << tp;
    }
  }
}

// 24 ranks for 12 heads: two groups. A rank sends the keys and values of its head, at half of the positions, to one
// other: forward, and again in the backward. Then it sends as many gradients.
TEST(Traffic, RanksBeyondTheHeadsSendKeysAndValues) {
  const double group = traffic({.cp = 12}).context / 2;                     // half of the positions
  const double keys_values = static_cast<double>(kB * kS / 2 * 2 * 4 * 2);  // K = 4, in bfloat16
  EXPECT_DOUBLE_EQ(traffic({.cp = 24}).context, group + 3 * kA * 6 * keys_values);
}

// A token goes to each of its experts and comes back, forward and backward, and so does its factor in float32, once
// each way. Fewer ranks share an expert's weights: those that have it.
TEST(Traffic, ExpertsOnTheirOwnRanksGetRowsAndHaveFewerShards) {
  ModelShape shape = traffic_shape();
  shape.moe_top_k = 3;
  for (models::Layer& layer : shape.layers) layer.experts = 8, layer.F = 32;
  const auto of = [&](const mesh::Degrees& degrees) {
    return step_traffic(shape, unit_counts(parameter_plan(shape)), degrees, {}, kTypes, kStep, kWhole, 0);
  };
  const double rows = kA * kB * kS * 6 * 3;  // of all layers and choices
  const StepTraffic whole = of({.dp_shard = 8}), apart = of({.dp_shard = 8, .ep = 4});
  EXPECT_EQ(whole.experts, 0);
  EXPECT_DOUBLE_EQ(apart.experts, 3.0 / 4 * rows * (4 * 48 * 2 + 2 * 4));
  const double experts = 6 * 8 * 3 * 48 * 32,
               dense = static_cast<double>(parameter_plan(shape).num_parameters) - experts;
  EXPECT_NEAR(whole.shard, 7.0 / 8 * 6 * (dense + experts), 1e-3);
  EXPECT_NEAR(apart.shard, 6 * (7.0 / 8 * dense + 1.0 / 2 * experts / 4), 1e-3);
  // Ranks that share the layers send their own rows alone, and have whole experts.
  const StepTraffic shared = of({.dp_shard = 4, .tp = 2, .ep = 4});
  EXPECT_DOUBLE_EQ(shared.experts, apart.experts / 2);
}

TEST(Traffic, APipelineSendsWhatItsScheduleSends) {
  for (const int64_t ranks : {1, 3}) {
    const Pipeline pipeline = {PipelineSchedule::kInterleaved1F1B, ranks, 2, kA};
    const PipelinePlan plan = {pipeline, stage_layers(6, pipeline.num_stages())};
    std::vector<double> sent(static_cast<size_t>(ranks)), expected(sent);
    for (int64_t stage = 0; stage < pipeline.num_stages(); ++stage) {
      sent[static_cast<size_t>(pipeline.rank_of(stage))] +=
          step_traffic(traffic_shape(), unit_counts(parameter_plan(traffic_shape())), {.cp = 2, .tp = 3, .pp = ranks},
                       {}, kTypes, kStep, plan, stage)
              .pipeline;
    }
    const auto lists = with_transfers(pipeline, compute_actions(pipeline));
    for (size_t rank = 0; rank < lists.size(); ++rank)
      for (const Action& a : lists[rank])
        if (a.kind == ActionKind::kSendForward || a.kind == ActionKind::kSendBackward)
          expected[rank] += static_cast<double>(kB * kS / 2 / 3 * 48 * 2);
    EXPECT_EQ(sent, expected);
  }
}

TEST(Traffic, StagesHaveTheirOwnWeights) {
  const Pipeline pipeline = {PipelineSchedule::k1F1B, 3, 1, kA};
  const mesh::Degrees degrees = {.dp_shard = 4, .pp = 3};
  for (const bool tied : {false, true}) {
    ModelShape shape = traffic_shape();
    shape.tied = tied;
    double sum = 0;
    const PipelinePlan plan = {pipeline, stage_layers(6, 3)};
    for (int64_t stage = 0; stage < 3; ++stage) {
      sum += step_traffic(shape, unit_counts(parameter_plan(shape)), degrees, {}, kTypes, kStep, plan, stage).shard;
    }
    // A tied embedding is on the first and on the last stage.
    const auto N = static_cast<double>(parameter_plan(shape).num_parameters + (tied ? 64 * 48 : 0));
    EXPECT_DOUBLE_EQ(sum, 0.75 * 6 * N);
  }
}

}  // namespace
}  // namespace hearth::plan
