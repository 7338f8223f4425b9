// Grouped-query attention with rotary positions: branch = wo attention(rope(wq y), rope(wk y), wv y), y the
// normed stream. Sources: GQA arXiv 2305.13245, RoPE arXiv 2104.09864 , FlashAttention-2 arXiv
// 2307.08691. Where the model has them, biases are added to the three products (Qwen2, arXiv 2407.10671), and each head
// of the first two is normed before its rotation (Qwen3, arXiv 2505.09388).
#pragma once

#include <ATen/core/Tensor.h>

#include "model/activations.h"
#include "model/unit_views.h"
#include "ops/attention.h"

namespace hearth::model {

// The parts of a packed row [wq y | wk y | wv y]: views, no copies. qkv_TN is [B*S, (H+2G)*K], of this rank's heads in
// attention.
struct QkvViews {
  at::Tensor q_BSHK, k_BSGK, v_BSGK;
};
QkvViews qkv_views(const at::Tensor& qkv_TN, const plan::ModelShape& shape, int64_t B, int64_t S);

// To qkv_TN [T, (H+2G)*K], the products with wq, wk and wv: adds the biases, and norms the heads of queries and keys.
// Keeps what they were in kHeadNormInput.
void bias_and_norm_heads(const Activations& a, const BlockViews& weights, const at::Tensor& qkv_TN, int64_t layer);

// kAttentionInput -> kQkv, kAttention, kLogSumExp: everything except the product with wo.
void attend(const Activations& a, const BlockViews& weights, const ops::AttentionMask& mask, int64_t layer);

// kAttentionInput -> kBranch; keeps kQkv, kAttention, kLogSumExp. Positions restart at each document of the mask.
void attention_forward(const Activations& a, const BlockViews& weights, const ops::AttentionMask& mask, int64_t layer);

// Gradient of kBranch (= kStreamGradient) -> kInputGradient, the gradient of kAttentionInput. Adds to `gradients`.
//
// If gradients are computed in halves, it adds nothing, and keeps kAttentionBranchGradient and kQkvGradient for
// attention_weight_gradients().
void attention_backward(const Activations& a, const BlockViews& weights, BlockViews& gradients,
                        const ops::AttentionMask& mask, int64_t layer);
void attention_weight_gradients(const Activations& a, BlockViews& gradients, int64_t layer);

}  // namespace hearth::model
