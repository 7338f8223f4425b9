#include "model/attention.h"

#include "model/linear.h"
#include "model/tensor_parallel.h"
#include "ops/rope.h"

namespace hearth::model {

using enum plan::Activation;

QkvViews qkv_views(const at::Tensor& qkv_TN, const plan::ModelShape& shape, int64_t B, int64_t S) {
  const at::Tensor heads = qkv_TN.view({B, S, shape.H + 2 * shape.G, shape.K});
  return {heads.narrow(2, 0, shape.H), heads.narrow(2, shape.H, shape.G), heads.narrow(2, shape.H + shape.G, shape.G)};
}

namespace {

// Queries and keys are adjacent, so one call rotates both: [B, S, H+G, K].
at::Tensor rotated_heads(const at::Tensor& qkv_TN, const plan::ModelShape& s, int64_t B, int64_t S) {
  return qkv_TN.view({B, S, s.H + 2 * s.G, s.K}).narrow(2, 0, s.H + s.G);
}

}  // namespace

void attend(const Activations& a, const BlockViews& weights, const ops::AttentionMask& mask, int64_t layer) {
  const plan::ModelShape& s = a.shape;
  const at::Tensor& qkv_TN = a(kQkv, layer);
  const at::Tensor& attention_TN = a(kAttention, layer);  // [T, H*K]

  linear(a, qkv_TN, all_rows(a, a(kAttentionInput, layer)), weights.wqkv_ND);
  ops::rope_forward(rotated_heads(qkv_TN, s, a.B, a.S), a.rope_SK, s.rope.halves, mask.document_starts_N);
  const auto [q, k, v] = qkv_views(qkv_TN, s, a.B, a.S);
  ops::attention_forward(attention_TN.view({a.B, a.S, s.H, s.K}), a(kLogSumExp, layer), q, k, v, mask);
}

void attention_forward(const Activations& a, const BlockViews& weights, const ops::AttentionMask& mask, int64_t layer) {
  attend(a, weights, mask, layer);
  linear(a, summands_of(a, a(kBranch)), a(kAttention, layer), weights.wo_DN);
  sum_rows(a, a(kBranch));
}

void attention_backward(const Activations& a, const BlockViews& weights, BlockViews& gradients,
                        const ops::AttentionMask& mask, int64_t layer) {
  const plan::ModelShape& s = a.shape;
  const at::Tensor& dbranch_TD = all_rows(a, a(kStreamGradient));
  const at::Tensor& dattention_TN = a(kAttentionGradient);
  const at::Tensor& dqkv_TN = a(kQkvGradient);
  const std::initializer_list<int64_t> heads_BSHK = {a.B, a.S, s.H, s.K};

  ops::matmul_weight_gradient(gradients.wo_DN, dbranch_TD, a(kAttention, layer));
  linear_input_gradient(a, dattention_TN, dbranch_TD, weights.wo_DN);

  const auto [q, k, v] = qkv_views(a(kQkv, layer), s, a.B, a.S);
  const auto [dq, dk, dv] = qkv_views(dqkv_TN, s, a.B, a.S);
  ops::attention_backward(dq, dk, dv, dattention_TN.view(heads_BSHK), a(kAttention, layer).view(heads_BSHK),
                          a(kLogSumExp, layer), q, k, v, mask);
  ops::rope_backward(rotated_heads(dqkv_TN, s, a.B, a.S), a.rope_SK, s.rope.halves, mask.document_starts_N);

  ops::matmul_weight_gradient(gradients.wqkv_ND, dqkv_TN, all_rows(a, a(kAttentionInput, layer)));
  linear_input_gradient(a, summands_of(a, a(kInputGradient)), dqkv_TN, weights.wqkv_ND);
  sum_rows(a, a(kInputGradient));
}

}  // namespace hearth::model
