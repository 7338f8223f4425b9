// SPDX-License-Identifier: Apache-2.0
// The loads of experts in a training's records, and the loss that balances them.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstring>
#include <numeric>

#include "tiny_run.h"

namespace hearth::train {
namespace {

using testing::HasSubstr;

class TrainedExperts : public TinyData {
 protected:
  config::RunConfig with(int64_t experts, int64_t top_k, double coefficient) const {
    config::RunConfig c = tiny_config(scratch);
    c.job.dump_folder = fmt::format("run-{}-{}-{}", experts, top_k, coefficient);
    c.model.n_layers = 3;
    c.model.num_experts = experts;
    c.model.moe_top_k = top_k;
    c.model.n_dense_layers = 1;
    c.model.moe_aux_loss_coeff = coefficient;
    c.checkpoint.interval = 0;
    return c;
  }
};

// A tensor of a checkpoint of float32.
std::vector<float> floats_of(const config::RunConfig& c, int64_t step, const std::string& name) {
  const std::vector<std::byte> bytes = tensors_of(step_of(c, step)).at(name);
  std::vector<float> values(bytes.size() / sizeof(float));
  std::memcpy(values.data(), bytes.data(), bytes.size());
  return values;
}

TEST_F(TrainedExperts, HaveEqualLoadsWhereEveryTokenTakesAll) {
  for (const metrics::StepRecord& record : train(with(3, 3, 0.25))) {
    if (record.step == 0) continue;
    ASSERT_EQ(record.expert_loads.size(), 2u);
    for (int64_t layer = 1; const metrics::ExpertLoad& load : record.expert_loads) {
      EXPECT_EQ(load, (metrics::ExpertLoad{layer++, 1, 1, 0, load.entropy}));
      EXPECT_GT(load.entropy, 0.5);
      EXPECT_LE(load.entropy, std::log(3) + 1e-6);
    }
    // Equal loads: each layer's loss is the sum of the mean scores, 1, times the coefficient.
    EXPECT_NEAR(record.loss_parts.at("moe_aux_loss"), 2 * 0.25, 1e-6);
    EXPECT_FALSE(record.loss_parts.contains("moe_z_loss")) << "its key is not given";
  }
}

TEST_F(TrainedExperts, HaveLoadsAroundTheMean) {
  bool some_idle = false;
  for (const metrics::StepRecord& record : train(with(64, 1, 0))) {
    for (const metrics::ExpertLoad& load : record.expert_loads) {
      EXPECT_LE(load.least, 1);
      EXPECT_GE(load.most, 1);
      EXPECT_EQ(load.idle > 0, load.least == 0);
      some_idle = some_idle || load.idle > 0;
    }
  }
  EXPECT_TRUE(some_idle);  // 256 tokens, 64 experts, and text of a few syllables
}

// Their matrices have the same shapes in a model with another routing.
TEST_F(TrainedExperts, AreALoadedModelsAlsoWithAnotherNumberForEachToken) {
  const config::RunConfig first = with(4, 2, 0);
  train(first);
  config::RunConfig second = first;
  second.job.dump_folder = "second";
  second.checkpoint.initial_load_path = first.run_folder();
  second.model.route_scale = 2;
  EXPECT_THAT(error_of([&] { run_training(second, {}); }).message(), HasSubstr("holds the weights of another model"));
  second.model.route_scale = 1;
  second.model.moe_top_k = 1;
  testing::internal::CaptureStdout();
  testing::internal::CaptureStderr();
  EXPECT_EQ(run_training(second, {}), ExitCode::kDone);
  const std::string text = testing::internal::GetCapturedStdout() + testing::internal::GetCapturedStderr();
  EXPECT_THAT(text, HasSubstr("differs from the checkpoint: model.moe_top_k: 2 -> 1"));
}

// Without the loss some experts learn to take more than twice their share.
TEST_F(TrainedExperts, AreBalancedByTheirLoss) {
  const auto most = [&](double coefficient) {
    config::RunConfig c = with(8, 2, coefficient);
    c.training.steps = 200;
    const std::vector<metrics::StepRecord> records = train(c);
    return std::accumulate(records.end() - 10, records.end(), 0.0, [](double sum, const metrics::StepRecord& record) {
      return sum + record.expert_loads.front().most / 10;
    });
  };
  const double without = most(0), with_loss = most(0.1);  // 2.3 and 1.6: tokens of one kind stay together
  EXPECT_GT(without, 1.8);
  EXPECT_LT(with_loss - 1, 0.7 * (without - 1));
}

// Their gradient does not train them: they follow the loads, whatever the rate of the optimizer.
TEST_F(TrainedExperts, AreBalancedByTheirBias) {
  const auto most = [&](double coefficient) {
    config::RunConfig c = with(8, 2, 0);
    c.job.dump_folder = fmt::format("bias-{}", coefficient);
    c.model.score_func = config::ScoreFunc::kSigmoid;
    c.model.expert_bias = c.model.route_norm = true;
    c.model.load_balance_coeff = coefficient;
    c.training.steps = 200;
    c.checkpoint.interval = 200;
    const std::vector<metrics::StepRecord> records = train(c);
    const std::vector<float> bias = floats_of(c, 200, "layers.1.moe.expert_bias");
    for (const float b : bias) {
      // 200 moves up, down or none.
      const double moves = coefficient == 0 ? 0 : b / coefficient;
      EXPECT_NEAR(moves, std::round(moves), 1e-2);
      EXPECT_LE(std::abs(moves), 200.5);
    }
    EXPECT_EQ(std::any_of(bias.begin(), bias.end(), [](float b) { return b != 0; }), coefficient > 0);
    return std::accumulate(records.end() - 10, records.end(), 0.0, [](double sum, const metrics::StepRecord& record) {
      return sum + record.expert_loads.front().most / 10;
    });
  };
  const double without = most(0), with_bias = most(0.01);
  EXPECT_GT(without, 1.5);
  EXPECT_LT(with_bias - 1, 0.7 * (without - 1));
}

// Ranks own parts of a bias that is so long.
TEST_F(TrainedExperts, HaveOneBiasWhereRanksShareIt) {
  const auto bias_with = [&](int64_t ranks) {
    config::RunConfig c = with(600, 2, 0);
    c.job.dump_folder = fmt::format("ranks-{}", ranks);
    c.model.n_layers = 2;
    c.model.moe_hidden_dim = 8;
    c.model.expert_bias = true;
    c.training.dtype = DType::kFloat64;
    c.training.threads = ranks;
    c.training.steps = c.checkpoint.interval = 3;
    c.parallelism.data_parallel_shard_degree = ranks;
    c.training.local_batch_size = 1;
    c.training.global_batch_size = 6;
    train(c);
    return tensors_of(step_of(c, 3)).at("layers.1.moe.expert_bias");
  };
  const std::vector<std::byte> one = bias_with(1);
  for (const int64_t ranks : {2, 3, 6}) EXPECT_EQ(bias_with(ranks), one) << ranks;
}

// A step that is not made moves no bias, and a frozen bias stays.
TEST_F(TrainedExperts, KeepABiasThatIsFrozen) {
  config::RunConfig c = with(8, 2, 0);
  c.model.expert_bias = true;
  c.model.load_balance_coeff = 0.01;
  c.checkpoint.freeze = {"layers.1.moe.expert_bias"};
  c.checkpoint.interval = c.training.steps;
  train(c);
  const std::vector<float> frozen = floats_of(c, c.training.steps, "layers.1.moe.expert_bias"),
                           moved = floats_of(c, c.training.steps, "layers.2.moe.expert_bias");
  EXPECT_EQ(frozen, std::vector<float>(8));
  EXPECT_NE(moved, std::vector<float>(8));
}

}  // namespace
}  // namespace hearth::train
