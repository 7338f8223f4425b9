#include "model/recompute.h"

#include "model/attention.h"
#include "model/linear.h"
#include "model/tensor_parallel.h"
#include "ops/norm.h"

namespace hearth::model {

using enum plan::Activation;

void recompute_for_feedforward(const Activations& a, const BlockViews& weights, const ops::AttentionMask& mask,
                               int64_t layer) {
  const plan::Norm& norm = a.shape.norm;
  switch (a.recompute(layer)) {
    case plan::Recompute::kNone:
      return;
    case plan::Recompute::kNorms:
    case plan::Recompute::kAttention:
      ops::norm_forward(norm, a(kFeedForwardInput, layer), a(kFeedForwardStatistics, layer), a(kMiddle, layer),
                        weights.ffn_norm_D);
      return;
    case plan::Recompute::kBlock:
      ops::norm_forward(norm, a(kAttentionInput, layer), a(kAttentionStatistics, layer), a(kStream, layer),
                        weights.attention_norm_D);
      attention_forward(a, weights, mask, layer);
      ops::add_norm_forward(norm, a(kMiddle, layer), a(kFeedForwardInput, layer), a(kFeedForwardStatistics, layer),
                            a(kStream, layer), a(kBranch), weights.ffn_norm_D);
      linear(a, a(kGateUp, layer), all_rows(a, a(kFeedForwardInput, layer)), weights.w13_FD);
  }
}

void recompute_for_attention(const Activations& a, const BlockViews& weights, const ops::AttentionMask& mask,
                             int64_t layer) {
  const plan::Recompute level = a.recompute(layer);
  if (level == plan::Recompute::kNone) return;
  ops::norm_forward(a.shape.norm, a(kAttentionInput, layer), a(kAttentionStatistics, layer), a(kStream, layer),
                    weights.attention_norm_D);
  if (level == plan::Recompute::kAttention) attend(a, weights, mask, layer);
}

}  // namespace hearth::model
