#include "model/transformer.h"

#include "base/error.h"
#include "model/attention.h"
#include "model/feedforward.h"
#include "model/recompute.h"
#include "model/tensor_parallel.h"
#include "model/unit_views.h"
#include "ops/embedding.h"
#include "ops/matmul.h"
#include "ops/norm.h"
#include "ops/rows.h"
#include "ops/tensor.h"

namespace hearth::model {

using enum plan::Activation;

void Transformer::loss(const at::Tensor& sums_2, Weights& weights, const MicroBatch& batch) {
  forward(weights, batch);
  loss_forward(sums_2, a_, output_VD(weights), batch);
  release_output(weights);
}

void Transformer::loss_and_gradient(const at::Tensor& sums_2, Weights& weights, const MicroBatch& batch,
                                    const LossScale& scale) {
  forward(weights, batch);
  loss_forward_backward(sums_2, a_, output_VD(weights), output_gradient_VD(weights), batch, scale);
  weights.prefetch(last_unit() - 1);
  backward(weights, batch);
}

ops::CrossEntropy Transformer::loss(Weights& weights, const MicroBatch& batch) {
  const at::Tensor sums_2 = ops::zeros({2}, DType::kFloat64, device());
  loss(sums_2, weights, batch);
  return ops::read_sums(sums_2);
}

ops::CrossEntropy Transformer::loss_and_gradient(Weights& weights, const MicroBatch& batch, double scale,
                                                 double z_factor) {
  const at::Tensor sums_2 = ops::zeros({2}, DType::kFloat64, device());
  loss_and_gradient(sums_2, weights, batch, {ops::from_float64(std::span(&scale, 1), device()), z_factor});
  return ops::read_sums(sums_2);
}

void Transformer::forward(Weights& weights, const MicroBatch& batch) {
  const plan::ModelShape& s = a_.shape;
  const ops::AttentionMask mask = mask_of(batch);
  HEARTH_CHECK(batch.tokens_T.numel() == a_.tokens(), "{} tokens for {} x {}", batch.tokens_T.numel(), a_.B, a_.S);

  const at::Tensor embedding_VD = parameter_view(weights.gather(0), plan_.parameters.front());
  weights.prefetch(1);
  ops::embedding_forward(summands_of(a_, a_(kStream, 0)), embedding_VD, batch.tokens_T, s.vocabulary);
  sum_rows(a_, a_(kStream, 0));
  weights.release(0);

  for (int64_t layer = 0; layer < s.L; ++layer) {
    const BlockViews w = block_views(weights.gather(1 + layer), plan_, layer);
    weights.prefetch(2 + layer);
    if (layer == 0) {
      ops::norm_forward(s.norm, a_(kAttentionInput, 0), a_(kAttentionStatistics, 0), a_(kStream, 0),
                        w.attention_norm_D);
    } else {
      // Adds the feed-forward branch of the block before to the stream.
      ops::add_norm_forward(s.norm, a_(kStream, layer), a_(kAttentionInput, layer), a_(kAttentionStatistics, layer),
                            a_(kMiddle, layer - 1), a_(kBranch), w.attention_norm_D);
    }
    attention_forward(a_, w, mask, layer);
    ops::add_norm_forward(s.norm, a_(kMiddle, layer), a_(kFeedForwardInput, layer), a_(kFeedForwardStatistics, layer),
                          a_(kStream, layer), a_(kBranch), w.ffn_norm_D);
    feedforward_forward(a_, w, layer);
    weights.release(1 + layer);
  }

  const at::Tensor norm_D = final_norm_view(weights.gather(last_unit()), plan_);
  ops::add_norm_forward(s.norm, a_(kStream, s.L), a_(kFinalInput), a_(kFinalStatistics), a_(kMiddle, s.L - 1),
                        a_(kBranch), norm_D);
}

// On entry kInputGradient holds the gradient of kFinalInput.
void Transformer::backward(Weights& weights, const MicroBatch& batch) {
  const plan::ModelShape& s = a_.shape;
  const ops::AttentionMask mask = mask_of(batch);
  const at::Tensor& dstream_TD = a_(kStreamGradient);

  const at::Tensor norm_D = final_norm_view(weights.gather(last_unit()), plan_);
  const at::Tensor dnorm_D = final_norm_view(weights.gradient(last_unit()), plan_);
  ops::norm_backward(s.norm, dstream_TD, dnorm_D, a_(kInputGradient), a_(kStream, s.L), a_(kFinalStatistics), norm_D,
                     /*accumulate=*/false);
  weights.gradient_ready(last_unit());
  release_output(weights);

  for (int64_t layer = s.L - 1; layer >= 0; --layer) {
    const BlockViews w = block_views(weights.gather(1 + layer), plan_, layer);
    if (layer > 0) weights.prefetch(layer);
    BlockViews dw = block_views(weights.gradient(1 + layer), plan_, layer);
    // The sum's gradient is the gradient of both summands: of the branch and of the stream before it.
    recompute_for_feedforward(a_, w, mask, layer);
    feedforward_backward(a_, w, dw, layer);
    ops::norm_backward(s.norm, dstream_TD, dw.ffn_norm_D, a_(kInputGradient), a_(kMiddle, layer),
                       a_(kFeedForwardStatistics, layer), w.ffn_norm_D, /*accumulate=*/true);
    recompute_for_attention(a_, w, mask, layer);
    attention_backward(a_, w, dw, mask, layer);
    ops::norm_backward(s.norm, dstream_TD, dw.attention_norm_D, a_(kInputGradient), a_(kStream, layer),
                       a_(kAttentionStatistics, layer), w.attention_norm_D, /*accumulate=*/true);
    weights.gradient_ready(1 + layer);
    weights.release(1 + layer);
  }

  const at::Tensor dembedding_VD = parameter_view(weights.gradient(0), plan_.parameters.front());
  ops::embedding_backward(dembedding_VD, all_rows(a_, dstream_TD), batch.tokens_T, s.vocabulary);
  weights.gradient_ready(0);
}

ops::AttentionMask Transformer::mask_of(const MicroBatch& batch) const {
  // Causal attention never reaches the padding at a row's end.
  if (!a_.shape.document_scope) return {a_.shape.causal, a_.shape.causal ? at::Tensor() : batch.padding_starts_N};
  HEARTH_CHECK(batch.document_starts_N.defined(), "a batch without its documents");
  return {a_.shape.causal, batch.document_starts_N, batch.longest_document};
}

at::Tensor Transformer::logits(Weights& weights, const at::Tensor& positions_N) {
  HEARTH_CHECK(a_.tensor == nullptr, "each rank has logits of a part of the vocabulary");
  const at::Tensor input = positions_N.defined() ? ops::gathered(a_(kFinalInput), positions_N) : a_(kFinalInput);
  const at::Tensor logits = ops::empty({input.size(0), a_.shape.V}, ops::dtype_of(input), device());
  ops::matmul(logits, input, output_VD(weights));
  weights.release(a_.shape.tied ? 0 : last_unit());
  return logits;
}

at::Tensor Transformer::output_VD(Weights& weights) {
  return a_.shape.tied ? parameter_view(weights.gather(0), plan_.parameters.front())
                       : parameter_view(weights.gather(last_unit()), plan_.parameters.back());
}

void Transformer::release_output(Weights& weights) {
  weights.release(last_unit());  // forward gathered it for the norm
  if (a_.shape.tied) weights.release(0);
}

at::Tensor Transformer::output_gradient_VD(Weights& weights) {
  return a_.shape.tied ? parameter_view(weights.gradient(0), plan_.parameters.front())
                       : parameter_view(weights.gradient(last_unit()), plan_.parameters.back());
}

}  // namespace hearth::model
