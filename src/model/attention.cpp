#include "model/attention.h"

#include "model/context_parallel.h"
#include "model/linear.h"
#include "model/tensor_parallel.h"
#include "ops/rope.h"
#include "ops/tensor.h"

namespace hearth::model {

using enum plan::Activation;

QkvViews qkv_views(const at::Tensor& qkv_TN, const plan::ModelShape& shape, int64_t B, int64_t S) {
  const int64_t H = shape.attention_heads(), G = shape.attention_key_heads();
  const at::Tensor heads = qkv_TN.view({B, S, H + 2 * G, shape.K});
  return {heads.narrow(2, 0, H), heads.narrow(2, H, G), heads.narrow(2, H + G, G)};
}

namespace {

// Queries and keys are adjacent, so one call rotates both: [B, S, H+G, K].
at::Tensor rotated_heads(const at::Tensor& qkv_TN, const plan::ModelShape& s, int64_t B, int64_t S) {
  const int64_t H = s.attention_heads(), G = s.attention_key_heads();
  return qkv_TN.view({B, S, H + 2 * G, s.K}).narrow(2, 0, H + G);
}

// Keys and values of all positions, where ranks gather them.
void use_gathered_keys(const Activations& a, QkvViews& views, const at::Tensor& keys_values_WN) {
  const int64_t G = a.shape.attention_key_heads();
  const at::Tensor heads = keys_values_WN.view({a.B, a.S, 2 * G, a.shape.K});
  views.k_BSGK = heads.narrow(2, 0, G);
  views.v_BSGK = heads.narrow(2, G, G);
}

}  // namespace

void attend(const Activations& a, const BlockViews& weights, const ops::AttentionMask& mask, int64_t layer) {
  const plan::ModelShape& s = a.shape;
  const bool shared = a.context.heads != nullptr, gathers = a.context.keys != nullptr;
  const int64_t Q = a.S / s.key_ranks;
  const at::Tensor& qkv_WN = a(kQkv, layer);  // W = B*Q
  const at::Tensor& out_WN = shared ? a(kAttentionHeads, layer) : a(kAttention, layer);

  linear(a, shared ? a(kQkvRows) : qkv_WN, all_rows(a, a(kAttentionInput, layer)), weights.wqkv_ND);
  if (shared) rows_to_heads(a, RowsOf::kQkv, qkv_WN, a(kQkvRows));
  ops::rope_forward(rotated_heads(qkv_WN, s, a.B, Q), a.rope_SK, s.rope.halves, mask.document_starts_N, mask.queries);
  if (gathers) gather_keys(a, layer);
  QkvViews x = qkv_views(qkv_WN, s, a.B, Q);
  if (gathers) use_gathered_keys(a, x, a(kKeysValues));
  ops::attention_forward(out_WN.view({a.B, Q, s.attention_heads(), s.K}), a(kLogSumExp, layer), x.q_BSHK, x.k_BSGK,
                         x.v_BSGK, mask);
  if (shared) heads_to_rows(a, RowsOf::kQueries, a(kAttention, layer), out_WN);
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
  const bool shared = a.context.heads != nullptr, gathers = a.context.keys != nullptr;
  const int64_t Q = a.S / s.key_ranks;
  const at::Tensor& dout_WN = shared ? a(kAttentionHeadsGradient) : a(kAttentionGradient);
  const at::Tensor& out_WN = shared ? a(kAttentionHeads, layer) : a(kAttention, layer);
  const at::Tensor& dqkv_TN = a(kQkvGradient, a.in_halves() ? layer : 0);
  const at::Tensor& dqkv_WN = shared ? a(kQkvHeadsGradient) : dqkv_TN;
  const std::initializer_list<int64_t> heads_BQHK = {a.B, Q, s.attention_heads(), s.K};

  if (a.in_halves()) {
    ops::copy_(a(kAttentionBranchGradient, layer), a(kStreamGradient));
  } else {
    ops::matmul_weight_gradient(gradients.wo_DN, dbranch_TD, a(kAttention, layer));
  }
  linear_input_gradient(a, a(kAttentionGradient), dbranch_TD, weights.wo_DN);
  if (shared) rows_to_heads(a, RowsOf::kQueries, dout_WN, a(kAttentionGradient));

  // After a recomputation of attention they are still there.
  if (gathers && a.recompute(layer) < plan::Recompute::kAttention) gather_keys(a, layer);
  QkvViews x = qkv_views(a(kQkv, layer), s, a.B, Q), dx = qkv_views(dqkv_WN, s, a.B, Q);
  if (gathers) {
    use_gathered_keys(a, x, a(kKeysValues));
    use_gathered_keys(a, dx, a(kKeysValuesGradient));
  }
  ops::attention_backward(dx.q_BSHK, dx.k_BSGK, dx.v_BSGK, dout_WN.view(heads_BQHK), out_WN.view(heads_BQHK),
                          a(kLogSumExp, layer), x.q_BSHK, x.k_BSGK, x.v_BSGK, mask);
  if (gathers) sum_key_gradients(a, dqkv_WN);
  ops::rope_backward(rotated_heads(dqkv_WN, s, a.B, Q), a.rope_SK, s.rope.halves, mask.document_starts_N, mask.queries);
  if (shared) heads_to_rows(a, RowsOf::kQkv, dqkv_TN, dqkv_WN);

  if (a.in_halves()) {
    linear_input_gradient(a, summands_of(a, a(kInputGradient)), dqkv_TN, weights.wqkv_ND);
    return sum_rows(a, a(kInputGradient));
  }
  linear_backward(a, a(kInputGradient), gradients.wqkv_ND, dqkv_TN, a(kAttentionInput, layer), weights.wqkv_ND);
}

void attention_weight_gradients(const Activations& a, BlockViews& gradients, int64_t layer) {
  ops::matmul_weight_gradient(gradients.wo_DN, all_rows(a, a(kAttentionBranchGradient, layer)), a(kAttention, layer));
  ops::matmul_weight_gradient(gradients.wqkv_ND, a(kQkvGradient, layer), all_rows(a, a(kAttentionInput, layer)));
}

}  // namespace hearth::model
