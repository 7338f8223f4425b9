// Output matrix and cross-entropy together, for loss_chunk_tokens tokens at a time: the [T, V] logits never exist
// whole.
#pragma once

#include <ATen/core/Tensor.h>

#include "model/activations.h"

namespace hearth::model {

// One micro-batch as the model takes it. T = B*S.
struct MicroBatch {
  at::Tensor tokens_T;   // int32
  at::Tensor labels_T;   // int32, -100 where not counted
  at::Tensor weights_T;  // float32, of each label's loss; undefined: all 1
  // int32, rising: the places at which documents start, the first of each row among them. Read only by a model whose
  // attention keeps to documents.
  at::Tensor document_starts_N = {};
};

// Reads kFinalInput. Returns the sum over counted positions of weight * -log softmax(logits)[label].
double loss_forward(const Activations& a, const at::Tensor& output_VD, const MicroBatch& batch);

// The same, and for the loss `loss_scale * sum`: writes the gradient of kFinalInput to kInputGradient and adds that of
// the output matrix to `output_gradient_VD`.
double loss_forward_backward(const Activations& a, const at::Tensor& output_VD, const at::Tensor& output_gradient_VD,
                             const MicroBatch& batch, double loss_scale);

}  // namespace hearth::model
