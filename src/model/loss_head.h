// Output matrix and cross-entropy together, for loss_chunk_tokens tokens at a time: the [T, V] logits never exist
// whole. If few positions count (ModelShape::sparse_labels), only those go through the output matrix.
#pragma once

#include <ATen/core/Tensor.h>

#include "model/activations.h"
#include "ops/cross_entropy.h"

namespace hearth::model {

// One micro-batch as the model takes it. T = B*S.
struct MicroBatch {
  at::Tensor tokens_T;        // int32
  at::Tensor labels_T;        // int32, -100 where not counted
  at::Tensor weights_T = {};  // float32, of each label's loss; undefined: all 1
  // int64, ascending: the positions whose labels count; undefined: all, as far as labels say.
  at::Tensor counted_N = {};
  // int32, rising: the places at which documents start, the first of each row among them. Read only by a model whose
  // attention keeps to documents.
  at::Tensor document_starts_N = {};
  // int32, rising: the first place of each row, and of its padding where it has some. Read only by a model whose
  // attention looks to the right; undefined: nothing is padding.
  at::Tensor padding_starts_N = {};
  int64_t longest_document = 0;  // of document_starts_N; 0: as long as a row
};

// How the sums of a micro-batch become the loss that is differentiated: scale * (loss + z_factor * z_squares).
struct LossScale {
  at::Tensor scale_1;  // [1] float64, outside the model's memory: it differs from step to step
  double z_factor = 0;
};

// Reads kFinalInput. Adds the sums over the counted positions, with their weights, to sums_2 (ops/cross_entropy.h).
void loss_forward(const at::Tensor& sums_2, const Activations& a, const at::Tensor& output_VD, const MicroBatch& batch);

// The same; writes the gradient of kFinalInput to kInputGradient and adds that of the output matrix to
// `output_gradient_VD`.
void loss_forward_backward(const at::Tensor& sums_2, const Activations& a, const at::Tensor& output_VD,
                           const at::Tensor& output_gradient_VD, const MicroBatch& batch, const LossScale& scale);

}  // namespace hearth::model
