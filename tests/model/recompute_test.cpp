// SPDX-License-Identifier: Apache-2.0
// What backward computes again has the bits that forward would have kept: the gradients are those of no recomputation.
#include <ATen/Context.h>
#include <ATen/TensorOperators.h>
#include <ATen/ops/randint.h>
#include <gtest/gtest.h>

#include "config/families.h"
#include "local_weights.h"
#include "model/transformer.h"

namespace hearth::model {
namespace {

using config::AttentionScope;
using config::NormType;

using Levels = std::vector<plan::Recompute>;
using enum plan::Recompute;

struct Result {
  double sum;
  std::vector<at::Tensor> gradients;
  int64_t memory_bytes;
};

Result run(const plan::ModelShape& shape, DType dtype, const Levels& levels) {
  const plan::ParameterPlan plan = plan::parameter_plan(shape);
  test::LocalWeights weights(plan, dtype, 5);
  if (shape.qk_norm) weights.vary_vectors(plan);
  at::manual_seed(9);
  constexpr int64_t B = 2, S = 70;
  MicroBatch batch{at::randint(shape.V, {B * S}, at::kInt), at::randint(shape.V, {B * S}, at::kInt), {}};
  batch.document_starts_N = ops::from_int32(std::vector<int32_t>{0, 40, 70, 139});
  Transformer model(shape, plan, B, S,
                    {.dtype = dtype, .loss_chunk_tokens = 64, .training = true, .recompute = levels});
  Result result{model.loss_and_gradient(weights, batch, 0.01).loss, {}, model.memory_bytes()};
  model.loss_and_gradient(weights, batch, 0.01);  // and once more, on memory that has been used
  for (int64_t u = 0; u < static_cast<int64_t>(plan.units.size()); ++u)
    result.gradients.push_back(weights.gradient(u).clone());
  return result;
}

plan::ModelShape small_shape(NormType norm_type, AttentionScope scope, bool normed_heads = false,
                             bool like_olmo2 = false) {
  config::Model m;
  m.dim = 96, m.n_layers = 3, m.n_heads = 6, m.n_kv_heads = 3, m.hidden_dim = 136;
  m.norm_type = norm_type, m.attention_scope = scope;
  if (normed_heads) m.head_dim = 24, m.qkv_bias = m.qk_norm = true;
  if (like_olmo2) config::apply(config::find_family("olmo2"), m);
  return plan::model_shape(m, 61);
}

// Norms of inputs and outputs, all biases, and multipliers everywhere.
plan::ModelShape shape_like_gemma(bool gated) {
  config::Model m;
  m.dim = 96, m.n_layers = 3, m.n_heads = 6, m.n_kv_heads = 3, m.hidden_dim = 136, m.head_dim = 24;
  m.norm_type = NormType::kRmsNorm1p, m.norm_placement = config::NormPlacement::kBoth, m.qk_norm = true;
  m.activation = gated ? config::Activation::kGeluTanh : config::Activation::kRelu2, m.gated_ffn = gated;
  m.qkv_bias = m.output_bias = m.ffn_bias = true;
  m.embedding_multiplier = 9.7, m.residual_multiplier = 0.3, m.attention_multiplier = 0.1, m.logits_divisor = 3;
  return plan::model_shape(m, 61);
}

// Layers with experts behind a dense one.
plan::ModelShape shape_with_experts(config::NormPlacement placement, int64_t shared) {
  config::Model m;
  m.dim = 96, m.n_layers = 3, m.n_heads = 6, m.n_kv_heads = 3, m.hidden_dim = 136;
  m.norm_placement = placement;
  m.num_experts = 8, m.moe_top_k = 3, m.moe_hidden_dim = 40, m.n_dense_layers = 1, m.moe_aux_loss_coeff = 0.1;
  m.num_shared_experts = shared, m.attention_gate = shared > 0;
  return plan::model_shape(m, 61);
}

plan::ModelShape shape_with_latents(int64_t of_queries) {
  config::Model m;
  m.dim = 96, m.n_layers = 3, m.n_heads = 6, m.hidden_dim = 136, m.q_lora_rank = of_queries, m.kv_lora_rank = 40;
  m.qk_nope_head_dim = 18, m.qk_rope_head_dim = 6, m.v_head_dim = 16;
  return plan::model_shape(m, 61);
}

// gpt-oss: sinks of attention, and experts with biases.
plan::ModelShape shape_like_gpt_oss() {
  config::Model m;
  m.dim = 96, m.n_layers = 3, m.n_heads = 6, m.n_kv_heads = 3, m.hidden_dim = 40, m.sliding_window = 9;
  m.full_attention_interval = 2;
  config::apply(config::find_family("gpt_oss"), m);
  m.num_experts = 8, m.moe_top_k = 3;
  return plan::model_shape(m, 61);
}

void same_as_none(const plan::ModelShape& shape, DType dtype, const std::vector<Levels>& all_levels) {
  const Result none = run(shape, dtype, {});
  for (const Levels& levels : all_levels) {
    const Result again = run(shape, dtype, levels);
    EXPECT_EQ(again.sum, none.sum);
    EXPECT_LT(again.memory_bytes, none.memory_bytes);
    for (size_t u = 0; u < none.gradients.size(); ++u)
      EXPECT_TRUE(again.gradients[u].equal(none.gradients[u]))
          << "unit " << u << " level " << static_cast<int>(levels.front());
  }
}

TEST(Recompute, EveryLevelHasTheGradientsOfNoneBitForBit) {
  const std::vector<Levels> levels = {Levels(3, kNorms), Levels(3, kAttention), Levels(3, kBlock),
                                      Levels{kBlock, kAttention, kNone}, Levels{kNone, kNorms, kBlock}};
  for (const NormType norm_type : {NormType::kRmsNorm, NormType::kLayerNorm, NormType::kRmsNormNeox})
    same_as_none(small_shape(norm_type, AttentionScope::kWindow), DType::kFloat32, levels);
  same_as_none(small_shape(NormType::kRmsNorm, AttentionScope::kDocument), DType::kFloat32, levels);
  for (const DType dtype : {DType::kFloat32, DType::kBFloat16, DType::kFloat64})
    same_as_none(small_shape(NormType::kRmsNorm, AttentionScope::kDocument, /*normed_heads=*/true), dtype, levels);
  for (const DType dtype : {DType::kFloat32, DType::kBFloat16})
    same_as_none(small_shape(NormType::kRmsNorm, AttentionScope::kWindow, false, /*like_olmo2=*/true), dtype, levels);
  for (const auto placement : {config::NormPlacement::kInputs, config::NormPlacement::kOutputs})
    for (const int64_t shared : {0, 2})
      same_as_none(shape_with_experts(placement, shared), DType::kBFloat16,
                   {Levels(3, kNorms), Levels(3, kAttention), Levels(3, kBlock)});
  for (const int64_t of_queries : {0, 56}) same_as_none(shape_with_latents(of_queries), DType::kBFloat16, levels);
  for (const DType dtype : {DType::kFloat32, DType::kBFloat16})
    same_as_none(shape_like_gpt_oss(), dtype, {Levels(3, kNorms), Levels(3, kAttention), Levels(3, kBlock)});
  for (const bool gated : {true, false}) same_as_none(shape_like_gemma(gated), DType::kFloat32, levels);
  same_as_none(small_shape(NormType::kNpLayerNorm, AttentionScope::kDocument), DType::kFloat64, {Levels(3, kBlock)});
}

}  // namespace
}  // namespace hearth::model
