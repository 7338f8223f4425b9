// SPDX-License-Identifier: Apache-2.0
#include "model/stage.h"

#include "base/error.h"
#include "ops/rows.h"
#include "ops/tensor.h"
#include "trace/spans.h"

namespace hearth::model {

void Stage::for_units(int64_t layer, Weights& weights, void (Weights::*call)(int64_t unit)) const {
  const plan::LayerUnits& units = plan_.units_of(in_model(layer));
  (weights.*call)(units.block);
  if (units.has_experts()) (weights.*call)(units.experts);
}

void Stage::forward(Weights& weights, const MicroBatch& batch) {
  HEARTH_CHECK(batch.tokens_T.numel() == a_.tokens(), "{} tokens for {} x {}", batch.tokens_T.numel(), a_.B(), a_.S());
  const Inputs inputs = inputs_of(batch);
  if (shape().has_embedding()) {
    const UnitTensors unit = forward_of(weights, 0);
    for_units(0, weights, &Weights::prefetch);
    run(Section::kEmbedding, 0, unit, inputs);
    weights.release(0);
  }
  for (int64_t layer = 0; layer < shape().L(); ++layer) {
    const trace::SpanScope span(trace::SpanKind::kLayer, "forward", in_model(layer));
    const UnitTensors unit = layer_weights(plan_, weights, in_model(layer));
    if (layer + 1 < shape().L()) {
      for_units(layer + 1, weights, &Weights::prefetch);
    } else if (shape().has_output()) {
      weights.prefetch(last_unit());
    }
    run(Section::kForward, layer, unit, inputs);
    for_units(layer, weights, &Weights::release);
  }
  if (!shape().has_output()) return run(Section::kFinalNorm, 0, {plan_, last_unit(), {}, {}}, inputs);
  run(Section::kFinalNorm, 0, forward_of(weights, last_unit()), inputs);
  weights.release(last_unit());
}

void Stage::loss(const at::Tensor& sums_2, Weights& weights, const MicroBatch& batch) {
  const trace::SpanScope span(trace::SpanKind::kPhase, "loss");
  Inputs inputs = inputs_of(batch);
  inputs.sums_2 = sums_2;
  run(Section::kLoss, 0, forward_of(weights, output_unit()), inputs);
  weights.release(output_unit());
}

void Stage::loss_and_gradient(const at::Tensor& sums_2, Weights& weights, const MicroBatch& batch,
                              const LossScale& scale) {
  const trace::SpanScope span(trace::SpanKind::kPhase, "loss");
  Inputs inputs = inputs_of(batch);
  inputs.sums_2 = sums_2;
  inputs.scale = scale;
  run(Section::kLossAndGradient, 0, backward_of(weights, output_unit()), inputs);
  for_units(shape().L() - 1, weights, &Weights::prefetch);
  run(Section::kFinalNormGradient, 0, backward_of(weights, last_unit()), inputs);
  weights.gradient_ready(last_unit());
  weights.release(last_unit());
  if (!shape().tied) return;
  if (!shape().has_embedding()) weights.gradient_ready(0);
  weights.release(0);
}

void Stage::backward(Weights& weights, const MicroBatch& batch, const LossScale& scale) {
  Inputs inputs = inputs_of(batch);
  inputs.scale = scale;
  for (int64_t layer = shape().L() - 1; layer >= 0; --layer) {
    const trace::SpanScope span(trace::SpanKind::kLayer, "backward", in_model(layer));
    const UnitTensors unit = layer_weights(plan_, weights, in_model(layer));
    if (layer > 0) for_units(layer - 1, weights, &Weights::prefetch);
    run(Section::kBackward, layer, with_gradients(unit, weights), inputs);
    // Before the sum of this block's gradients, which takes longer: the block after the next one must not wait for it.
    if (layer > 1) for_units(layer - 2, weights, &Weights::prefetch);
    if (!a_.program().in_halves()) for_units(layer, weights, &Weights::gradient_ready);
    for_units(layer, weights, &Weights::release);
  }
  if (!shape().has_embedding()) return;
  const bool needs_weights = shape().embedding_norm;
  run(Section::kEmbeddingGradient, 0,
      {plan_, 0, needs_weights ? weights.gather(0) : at::Tensor(), weights.gradient_to_write(0)}, inputs);
  weights.gradient_ready(0);
  if (needs_weights) weights.release(0);
}

void Stage::weight_gradients(Weights& weights) {
  for (int64_t layer = shape().L() - 1; layer >= 0; --layer) {
    const trace::SpanScope span(trace::SpanKind::kLayer, "weight gradients", in_model(layer));
    const UnitTensors unit{plan_, plan_.units_of(in_model(layer)).block, {}, {}};
    run(Section::kWeightGradients, layer, with_gradients(unit, weights), {});
    for_units(layer, weights, &Weights::gradient_ready);
  }
}

Inputs Stage::inputs_of(const MicroBatch& batch) const {
  Inputs inputs;
  inputs.batch = &batch;
  inputs.mask.causal = shape().causal;
  inputs.mask.queries = a_.queries();
  if (shape().document_scope) {
    HEARTH_CHECK(batch.document_starts_N.defined(), "a batch without its documents");
    inputs.mask.document_starts_N = batch.document_starts_N;
    inputs.mask.longest_document = batch.longest_document;
  } else if (!shape().causal) {  // causal attention never reaches the padding at a row's end
    inputs.mask.document_starts_N = batch.padding_starts_N;
  }
  return inputs;
}

at::Tensor Stage::logits(Weights& weights, const at::Tensor& positions_N) {
  const at::Tensor own = a_(a_.program().final_input);
  const at::Tensor rows = a_.tensor == nullptr ? own : a_(a_.program().gathered_rows);
  if (a_.tensor != nullptr) a_.tensor->all_gather(rows, own);
  const at::Tensor input = positions_N.defined() ? ops::gathered(rows, positions_N) : rows;
  const at::Tensor logits = ops::empty({input.size(0), shape().V}, ops::dtype_of(input), a_.device());
  compute_logits(logits, input, output_weights(forward_of(weights, output_unit()), a_.program()));
  weights.release(output_unit());
  return a_.tensor == nullptr ? logits : all_columns(logits);
}

// [N, V of the vocabulary] from each rank's [N, V].
at::Tensor Stage::all_columns(const at::Tensor& part_NV) const {
  const int64_t R = a_.tensor->size(), N = part_NV.size(0), V = shape().vocabulary.total;
  // The first ranks may have one id more than the others. Equal parts are gathered.
  const at::Tensor parts_RNV = ops::zeros({R, N, (V + R - 1) / R}, ops::dtype_of(part_NV), a_.device());
  const at::Tensor own_NV = parts_RNV.select(0, a_.tensor->rank());
  ops::copy_(own_NV.narrow(1, 0, shape().V), part_NV);
  a_.tensor->all_gather(parts_RNV, own_NV);
  const at::Tensor whole_NV = ops::empty({N, V}, ops::dtype_of(part_NV), a_.device());
  for (int64_t rank = 0, first = 0; rank < R; ++rank) {
    const int64_t count = V / R + (rank < V % R ? 1 : 0);
    ops::copy_(whole_NV.narrow(1, first, count), parts_RNV.select(0, rank).narrow(1, 0, count));
    first += count;
  }
  return whole_NV;
}

}  // namespace hearth::model
