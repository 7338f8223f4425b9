// SPDX-License-Identifier: Apache-2.0
// The model uses a unit's weights only between gather and release: other units may then have the memory.
#include <gtest/gtest.h>

#include <algorithm>
#include <limits>
#include <map>
#include <string>
#include <vector>

#include "config/config.h"
#include "decode/decoder.h"
#include "local_weights.h"
#include "model/transformer.h"

namespace hearth::model {
namespace {

// Gives a copy of a unit's weights, which is NaN after the release.
class PoisonedWeights final : public test::LocalWeights {
 public:
  using LocalWeights::LocalWeights;
  at::Tensor gather(int64_t unit) override {
    at::Tensor& copy = gathered_[unit];
    if (!copy.defined()) copy = whole(unit).clone();
    most_ = std::max(most_, gathered_.size());
    return copy;
  }
  void prefetch(int64_t unit) override {
    ++prefetched[unit];
    order.push_back(fmt::format("prefetch {}", unit));
  }
  void gradient_ready(int64_t unit) override {
    LocalWeights::gradient_ready(unit);
    order.push_back(fmt::format("ready {}", unit));
  }
  void release(int64_t unit) override {
    ASSERT_TRUE(gathered_.contains(unit)) << "unit " << unit << " is released and was not gathered";
    gathered_[unit].fill_(std::numeric_limits<double>::quiet_NaN());
    gathered_.erase(unit);
  }

  size_t held() const { return gathered_.size(); }
  size_t most_held() const { return most_; }
  std::map<int64_t, int64_t> prefetched;
  std::vector<std::string> order;

 private:
  std::map<int64_t, at::Tensor> gathered_;
  size_t most_ = 0;
};

struct Case {
  plan::ModelShape shape;
  plan::ParameterPlan plan;
  MicroBatch batch;

  explicit Case(bool tied) {
    config::Model model;
    model.dim = 24;
    model.n_layers = 3;
    model.n_heads = 4;
    model.hidden_dim = 28;
    model.enable_weight_tying = tied;
    shape = plan::model_shape(model, 37);
    plan = plan::parameter_plan(shape);
    std::vector<int32_t> tokens(16), labels(16);
    for (size_t i = 0; i < tokens.size(); ++i) {
      tokens[i] = static_cast<int32_t>(i * 7 % static_cast<size_t>(shape.V));
      labels[i] = static_cast<int32_t>((i * 5 + 1) % static_cast<size_t>(shape.V));
    }
    batch.tokens_T = ops::from_int32(tokens);
    batch.labels_T = ops::from_int32(labels);
  }
  Transformer model(bool training) const {
    return {shape, plan, 2, 8, {.dtype = DType::kFloat64, .loss_chunk_tokens = 8, .training = training}};
  }
};

TEST(ReleasedWeights, AreNotReadInForwardAndBackward) {
  for (const bool tied : {false, true}) {
    const Case c(tied);
    test::LocalWeights plain(c.plan, DType::kFloat64, 3);
    PoisonedWeights poisoned(c.plan, DType::kFloat64, 3);
    for (int i = 0; i < 2; ++i) {  // the second finds nothing of the first
      const ops::CrossEntropy expected = c.model(true).loss_and_gradient(plain, c.batch, 0.1);
      EXPECT_EQ(c.model(true).loss_and_gradient(poisoned, c.batch, 0.1).loss, expected.loss);
    }
    for (size_t unit = 0; unit < c.plan.units.size(); ++unit) {
      const auto index = static_cast<int64_t>(unit);
      EXPECT_TRUE(poisoned.gradient(index).equal(plain.gradient(index))) << unit;
      if (unit > 0) {
        EXPECT_GE(poisoned.prefetched[index], 2) << unit;
      }
    }
    EXPECT_EQ(poisoned.held(), 0U);
    // The final norm's unit, and the tied output matrix, next to a block at most.
    EXPECT_LE(poisoned.most_held(), tied ? 2U : 1U);
  }
}

// In the communication stream the weights of the block after the next come before the sum of a block's gradients.
TEST(ReleasedWeights, AreGatheredBeforeTheSumsThatTheyWouldWaitFor) {
  const Case c(false);
  PoisonedWeights weights(c.plan, DType::kFloat64, 3);
  c.model(true).loss_and_gradient(weights, c.batch, 0.1);
  const auto first = [&](const std::string& call) {
    const auto backward = std::find(weights.order.begin(), weights.order.end(), "ready 4");  // the output's unit
    return std::find(backward, weights.order.end(), call) - weights.order.begin();
  };
  EXPECT_LT(first("prefetch 1"), first("ready 3"));
}

TEST(ReleasedWeights, AreNotReadForLossLogitsAndGeneration) {
  for (const bool tied : {false, true}) {
    const Case c(tied);
    test::LocalWeights plain(c.plan, DType::kFloat64, 3);
    PoisonedWeights poisoned(c.plan, DType::kFloat64, 3);
    Transformer one = c.model(false), other = c.model(false);
    EXPECT_EQ(one.loss(plain, c.batch).loss, other.loss(poisoned, c.batch).loss);
    EXPECT_TRUE(one.logits(plain).equal(other.logits(poisoned)));
    decode::Decoder decoder(c.shape, c.plan, poisoned, 8, DType::kFloat64),
        expected(c.shape, c.plan, plain, 8, DType::kFloat64);
    EXPECT_TRUE(decoder.append(std::vector<int32_t>{1, 2, 3}).equal(expected.append(std::vector<int32_t>{1, 2, 3})));
    EXPECT_TRUE(decoder.append(std::vector<int32_t>{4}).equal(expected.append(std::vector<int32_t>{4})));
    EXPECT_EQ(poisoned.held(), 0U);
  }
}

}  // namespace
}  // namespace hearth::model
