#include "model/attention.h"

#include "model/context_parallel.h"
#include "model/linear.h"
#include "model/tensor_parallel.h"
#include "ops/norm.h"
#include "ops/rope.h"
#include "ops/rows.h"
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

// The heads of queries and those of keys in rows that begin with them, and the same of their statistics.
struct NormedHeads {
  at::Tensor q_TNK, k_TNK;
};
NormedHeads normed_heads(const at::Tensor& qk_TN, const plan::ModelShape& s) {
  const int64_t T = qk_TN.size(0);
  return {qk_TN.narrow(1, 0, s.H * s.K).view({T, s.H, s.K}), qk_TN.narrow(1, s.H * s.K, s.G * s.K).view({T, s.G, s.K})};
}
NormedHeads head_statistics(const Activations& a, int64_t layer) {
  const at::Tensor& all = a(kHeadNormStatistics, layer);
  const int64_t queries = a.tokens() * a.shape.H;
  return {all.narrow(1, 0, queries), all.narrow(1, queries, all.size(1) - queries)};
}

// The gradient of the products with wq, wk and wv, in place, from that of what bias_and_norm_heads left.
void bias_and_norm_heads_backward(const Activations& a, const BlockViews& weights, const BlockViews& gradients,
                                  const at::Tensor& dqkv_TN, int64_t layer) {
  if (a.shape.qk_norm) {
    const auto [dq, dk] = normed_heads(dqkv_TN, a.shape);
    const auto [q, k] = normed_heads(a(kHeadNormInput, layer), a.shape);
    const auto [q_statistics, k_statistics] = head_statistics(a, layer);
    const plan::Norm norm = a.shape.head_norm();
    ops::norm_backward(norm, dq, gradients.q_norm_K, dq, q, q_statistics, weights.q_norm_K, /*accumulate=*/false);
    ops::norm_backward(norm, dk, gradients.k_norm_K, dk, k, k_statistics, weights.k_norm_K, /*accumulate=*/false);
  }
  if (a.shape.qkv_bias) ops::bias_gradient(gradients.bqkv_N, dqkv_TN);
}

}  // namespace

void bias_and_norm_heads(const Activations& a, const BlockViews& weights, const at::Tensor& qkv_TN, int64_t layer) {
  if (a.shape.qkv_bias) ops::add_bias(qkv_TN, weights.bqkv_N);
  if (!a.shape.qk_norm) return;
  const at::Tensor& kept = a(kHeadNormInput, layer);
  ops::copy_(kept, qkv_TN.narrow(1, 0, kept.size(1)));
  const auto [q, k] = normed_heads(kept, a.shape);
  const auto [q_normed, k_normed] = normed_heads(qkv_TN, a.shape);
  const auto [q_statistics, k_statistics] = head_statistics(a, layer);
  const plan::Norm norm = a.shape.head_norm();
  ops::norm_forward(norm, q_normed, q_statistics, q, weights.q_norm_K);
  ops::norm_forward(norm, k_normed, k_statistics, k, weights.k_norm_K);
}

void attend(const Activations& a, const BlockViews& weights, const ops::AttentionMask& mask, int64_t layer) {
  const plan::ModelShape& s = a.shape;
  const bool shared = a.context.heads != nullptr, gathers = a.context.keys != nullptr;
  const int64_t Q = a.S / s.key_ranks;
  const at::Tensor& qkv_WN = a(kQkv, layer);  // W = B*Q
  const at::Tensor& out_WN = shared ? a(kAttentionHeads, layer) : a(kAttention, layer);

  const at::Tensor& product_TN = shared ? a(kQkvRows) : qkv_WN;
  linear(a, product_TN, all_rows(a, a(kAttentionInput, layer)), weights.wqkv_ND);
  bias_and_norm_heads(a, weights, product_TN, layer);
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
  bias_and_norm_heads_backward(a, weights, gradients, dqkv_TN, layer);

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
