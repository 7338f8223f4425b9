// Output matrix and cross-entropy together, for loss_chunk_tokens tokens at a time: the [T, V] logits never exist
// whole. Where few positions count (masked language modelling), only those go through the output matrix at all.
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
};

// How the sums of a micro-batch become the loss that is differentiated: scale * (loss + z_factor * z_squares).
struct LossScale {
  double scale = 1;
  double z_factor = 0;
};

// Reads kFinalInput. Sums over the counted positions, with their weights.
ops::CrossEntropy loss_forward(const Activations& a, const at::Tensor& output_VD, const MicroBatch& batch);

// The same; writes the gradient of kFinalInput to kInputGradient and adds that of the output matrix to
// `output_gradient_VD`.
ops::CrossEntropy loss_forward_backward(const Activations& a, const at::Tensor& output_VD,
                                        const at::Tensor& output_gradient_VD, const MicroBatch& batch, LossScale scale);

}  // namespace hearth::model
