// SPDX-License-Identifier: Apache-2.0
// Documents packed into rows, with model.attention_scope = config::AttentionScope::kDocument, are the same documents
// run alone: what a user of packing relies on. tests/model/llama_test.cpp compares the same with transformers.
#include <ATen/Context.h>
#include <ATen/TensorOperators.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/randint.h>
#include <ATen/ops/zeros_like.h>
#include <gtest/gtest.h>

#include "base/error.h"
#include "local_weights.h"
#include "model/transformer.h"

namespace hearth::model {
namespace {

constexpr int64_t kRows = 2, kPositions = 23;

plan::ModelShape small_shape() {
  config::Model m;
  m.dim = 32, m.n_layers = 3, m.n_heads = 4, m.n_kv_heads = 2, m.hidden_dim = 40,
  m.attention_scope = config::AttentionScope::kDocument;
  return plan::model_shape(m, 57);
}

// Three documents in row 0; row 1 begins within a document, of which it has the last 9 tokens.
void packed_equals_alone(bool causal) {
  plan::ModelShape shape = small_shape();
  shape.causal = causal;
  const plan::ParameterPlan plan = plan::parameter_plan(shape);
  const std::vector<int32_t> starts = {0, 5, 16, 23, 32};
  test::LocalWeights packed(plan, DType::kFloat64, 7), alone(plan, DType::kFloat64, 7);
  at::manual_seed(3);
  const at::Tensor tokens = at::randint(shape.V, {kRows * kPositions}, at::kInt),
                   labels = at::randint(shape.V, {kRows * kPositions}, at::kInt);

  Transformer model(shape, plan, kRows, kPositions,
                    {.dtype = DType::kFloat64, .loss_chunk_tokens = 10, .training = true});
  const MicroBatch batch{tokens, labels, {}, {}, ops::from_int32(starts)};
  const double sum = model.loss_and_gradient(packed, batch, 0.1).loss;
  model.loss(packed, batch);
  const at::Tensor logits = model.logits(packed);

  double sum_alone = 0;
  std::vector<at::Tensor> logits_alone;
  for (size_t i = 0; i < starts.size(); ++i) {
    const int64_t begin = starts[i], end = i + 1 < starts.size() ? starts[i + 1] : kRows * kPositions;
    const MicroBatch document{tokens.narrow(0, begin, end - begin),
                              labels.narrow(0, begin, end - begin),
                              {},
                              {},
                              ops::from_int32(std::vector<int32_t>{0})};
    Transformer one(shape, plan, 1, end - begin, {.dtype = DType::kFloat64, .loss_chunk_tokens = 10, .training = true});
    sum_alone += one.loss_and_gradient(alone, document, 0.1).loss;
    one.loss(alone, document);
    logits_alone.push_back(one.logits(alone));
  }
  const at::Tensor expected = at::cat(logits_alone);
  EXPECT_LT((logits - expected).norm().item<double>(), 1e-12 * expected.norm().item<double>());
  EXPECT_NEAR(sum, sum_alone, 1e-12 * sum_alone);
  for (int64_t unit = 0; unit < static_cast<int64_t>(plan.units.size()); ++unit) {
    const at::Tensor theirs = alone.gradient(unit);
    EXPECT_LT((packed.gradient(unit) - theirs).norm().item<double>(), 1e-12 * theirs.norm().item<double>()) << unit;
  }
}

TEST(Documents, PackedIntoARowTheyAreAsTheyAreAlone) { packed_equals_alone(/*causal=*/true); }
TEST(Documents, PackedIntoARowTheyAreAsTheyAreAloneAlsoWhereAllPositionsAreSeen) {
  packed_equals_alone(/*causal=*/false);
}

TEST(Documents, ABatchThatDoesNotSayWhereTheyStartIsRefused) {
  const plan::ModelShape shape = small_shape();
  const plan::ParameterPlan plan = plan::parameter_plan(shape);
  test::LocalWeights weights(plan, DType::kFloat32, 7);
  Transformer model(shape, plan, 1, 4, {.dtype = DType::kFloat32, .loss_chunk_tokens = 10});
  const at::Tensor tokens = at::randint(shape.V, {4}, at::kInt);
  EXPECT_THROW(model.loss(weights, {tokens, tokens, {}}), Error);
}

}  // namespace
}  // namespace hearth::model
