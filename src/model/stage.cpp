#include "model/stage.h"

#include "base/error.h"
#include "mesh/spans.h"
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

void Stage::forward(Weights& weights, const MicroBatch& batch) {
  const plan::ModelShape& s = a_.shape;
  const ops::AttentionMask mask = mask_of(batch);
  HEARTH_CHECK(batch.tokens_T.numel() == a_.tokens(), "{} tokens for {} x {}", batch.tokens_T.numel(), a_.B, a_.S);

  if (s.has_embedding()) {
    const at::Tensor embedding_VD = parameter_view(weights.gather(0), plan_.parameters.front());
    weights.prefetch(1);
    ops::embedding_forward(summands_of(a_, a_(kStream, 0)), embedding_VD, batch.tokens_T, s.vocabulary);
    sum_rows(a_, a_(kStream, 0));
    weights.release(0);
  }

  for (int64_t layer = 0; layer < s.L; ++layer) {
    const mesh::SpanScope span(mesh::SpanKind::kLayer, "forward", s.layers.first + layer);
    const BlockViews w = block(weights.gather(unit_of(layer)), layer);
    if (layer + 1 < s.L || s.has_output()) weights.prefetch(unit_of(layer + 1));
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
    weights.release(unit_of(layer));
  }

  if (!s.has_output()) {
    ops::copy_(output(), a_(kMiddle, s.L - 1));
    return ops::add_(output(), a_(kBranch));
  }
  const at::Tensor norm_D = final_norm_view(weights.gather(last_unit()), plan_);
  ops::add_norm_forward(s.norm, a_(kStream, s.L), a_(kFinalInput), a_(kFinalStatistics), a_(kMiddle, s.L - 1),
                        a_(kBranch), norm_D);
  weights.release(last_unit());
}

void Stage::loss(const at::Tensor& sums_2, Weights& weights, const MicroBatch& batch) {
  const mesh::SpanScope span(mesh::SpanKind::kPhase, "loss");
  loss_forward(sums_2, a_, output_VD(weights), batch);
  weights.release(output_unit());
}

void Stage::loss_and_gradient(const at::Tensor& sums_2, Weights& weights, const MicroBatch& batch,
                              const LossScale& scale) {
  const mesh::SpanScope span(mesh::SpanKind::kPhase, "loss");
  loss_forward_backward(sums_2, a_, output_VD(weights), output_gradient_VD(weights), batch, scale);
  weights.prefetch(last_unit() - 1);
  // kInputGradient holds the gradient of kFinalInput.
  const at::Tensor norm_D = final_norm_view(weights.gather(last_unit()), plan_);
  const at::Tensor dnorm_D = final_norm_view(weights.gradient(last_unit()), plan_);
  ops::norm_backward(a_.shape.norm, a_(kStreamGradient), dnorm_D, a_(kInputGradient), a_(kStream, a_.shape.L),
                     a_(kFinalStatistics), norm_D, /*accumulate=*/false);
  weights.gradient_ready(last_unit());
  weights.release(last_unit());
  if (!a_.shape.tied) return;
  if (!a_.shape.has_embedding()) weights.gradient_ready(0);
  weights.release(0);
}

void Stage::backward(Weights& weights, const MicroBatch& batch) {
  const plan::ModelShape& s = a_.shape;
  const ops::AttentionMask mask = mask_of(batch);
  const at::Tensor& dstream_TD = a_(kStreamGradient);
  for (int64_t layer = s.L - 1; layer >= 0; --layer) {
    const mesh::SpanScope span(mesh::SpanKind::kLayer, "backward", s.layers.first + layer);
    const BlockViews w = block(weights.gather(unit_of(layer)), layer);
    if (layer > 0) weights.prefetch(unit_of(layer - 1));
    BlockViews dw = block(weights.gradient(unit_of(layer)), layer);
    // The sum's gradient is the gradient of both summands: of the branch and of the stream before it.
    recompute_for_feedforward(a_, w, mask, layer);
    feedforward_backward(a_, w, dw, layer);
    ops::norm_backward(s.norm, dstream_TD, dw.ffn_norm_D, a_(kInputGradient), a_(kMiddle, layer),
                       a_(kFeedForwardStatistics, layer), w.ffn_norm_D, /*accumulate=*/true);
    recompute_for_attention(a_, w, mask, layer);
    attention_backward(a_, w, dw, mask, layer);
    ops::norm_backward(s.norm, dstream_TD, dw.attention_norm_D, a_(kInputGradient), a_(kStream, layer),
                       a_(kAttentionStatistics, layer), w.attention_norm_D, /*accumulate=*/true);
    // Before the sum of this block's gradients, which takes longer: the block after the next one must not wait for it.
    if (layer > 1) weights.prefetch(unit_of(layer - 2));
    if (!a_.in_halves()) weights.gradient_ready(unit_of(layer));
    weights.release(unit_of(layer));
  }
  if (!s.has_embedding()) return;
  const at::Tensor dembedding_VD = parameter_view(weights.gradient(0), plan_.parameters.front());
  ops::embedding_backward(dembedding_VD, all_rows(a_, dstream_TD), batch.tokens_T, s.vocabulary);
  weights.gradient_ready(0);
}

void Stage::weight_gradients(Weights& weights) {
  for (int64_t layer = a_.shape.L - 1; layer >= 0; --layer) {
    const mesh::SpanScope span(mesh::SpanKind::kLayer, "weight gradients", a_.shape.layers.first + layer);
    BlockViews dw = block(weights.gradient(unit_of(layer)), layer);
    feedforward_weight_gradients(a_, dw, layer);
    attention_weight_gradients(a_, dw, layer);
    weights.gradient_ready(unit_of(layer));
  }
}

ops::AttentionMask Stage::mask_of(const MicroBatch& batch) const {
  // Causal attention never reaches the padding at a row's end.
  if (!a_.shape.document_scope)
    return {a_.shape.causal, a_.shape.causal ? at::Tensor() : batch.padding_starts_N, 0, a_.queries()};
  HEARTH_CHECK(batch.document_starts_N.defined(), "a batch without its documents");
  return {a_.shape.causal, batch.document_starts_N, batch.longest_document, a_.queries()};
}

at::Tensor Stage::logits(Weights& weights, const at::Tensor& positions_N) {
  const at::Tensor& rows = all_rows(a_, a_(kFinalInput));
  const at::Tensor input = positions_N.defined() ? ops::gathered(rows, positions_N) : rows;
  const at::Tensor logits = ops::empty({input.size(0), a_.shape.V}, ops::dtype_of(input), a_.device());
  ops::matmul(logits, input, output_VD(weights));
  weights.release(output_unit());
  return a_.tensor == nullptr ? logits : all_columns(logits);
}

// [N, V of the vocabulary] from each rank's [N, V].
at::Tensor Stage::all_columns(const at::Tensor& part_NV) const {
  const int64_t R = a_.tensor->size(), N = part_NV.size(0), V = a_.shape.vocabulary.total;
  // The first ranks may have one id more than the others. Equal parts are gathered.
  const at::Tensor parts_RNV = ops::zeros({R, N, (V + R - 1) / R}, ops::dtype_of(part_NV), a_.device());
  const at::Tensor own_NV = parts_RNV.select(0, a_.tensor->rank());
  ops::copy_(own_NV.narrow(1, 0, a_.shape.V), part_NV);
  a_.tensor->all_gather(parts_RNV, own_NV);
  const at::Tensor whole_NV = ops::empty({N, V}, ops::dtype_of(part_NV), a_.device());
  for (int64_t rank = 0, first = 0; rank < R; ++rank) {
    const int64_t count = V / R + (rank < V % R ? 1 : 0);
    ops::copy_(whole_NV.narrow(1, first, count), parts_RNV.select(0, rank).narrow(1, 0, count));
    first += count;
  }
  return whole_NV;
}

at::Tensor Stage::output_VD(Weights& weights) { return parameter_view(weights.gather(output_unit()), output_matrix()); }

at::Tensor Stage::output_gradient_VD(Weights& weights) {
  return parameter_view(weights.gradient(output_unit()), output_matrix());
}

BlockViews Stage::block(const at::Tensor& flat, int64_t layer) const {
  return block_views(flat, plan_, a_.shape.layers.first + layer);
}

}  // namespace hearth::model
