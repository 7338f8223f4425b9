// SPDX-License-Identifier: Apache-2.0
// Output matrix and cross-entropy together, for loss_chunk_tokens tokens at a time, so the full [T, V] logits never
// exist. Ranks that share the layers have a part of the vocabulary each. If few positions count
// (ModelShape::sparse_labels), only those go through the output matrix.
#pragma once

#include <ATen/core/Tensor.h>

#include "model/activations.h"
#include "models/ops.h"
#include "ops/cross_entropy.h"

namespace hearth::model {

// One micro-batch, the model's input. T = B*S. If ranks share the sequences, tensors have this rank's positions only,
// but starts are places in whole sequences.
struct MicroBatch {
  at::Tensor tokens_T;        // int32
  at::Tensor labels_T;        // int32, -100 where not counted
  at::Tensor weights_T = {};  // float32, the weight of each label's loss; undefined: all 1
  // int64, ascending: the positions whose labels count. Undefined: all positions; labels of -100 still do not count.
  at::Tensor counted_N = {};
  // int32, ascending: the places where documents start, including the first place of each row. Read only by a model
  // whose attention is limited to documents.
  at::Tensor document_starts_N = {};
  // int32, ascending: the first place of each row, and of its padding if it has some. Read only by a model without
  // causal attention; undefined: no padding.
  at::Tensor padding_starts_N = {};
  // float32: 1 at tokens and 0 at padding, and the number of tokens of each row [B]. Routers of experts do not count
  // padding. Undefined: no padding.
  at::Tensor counts_T = {}, row_tokens_B = {};
  int64_t longest_document = 0;  // the longest in document_starts_N; 0: as long as a row
};

// Turns the sums of a micro-batch into the differentiated loss: scale * (loss + z_factor * z_squares).
struct LossScale {
  at::Tensor scale_1;  // [1] float64, in the model's memory, because it differs from step to step
  double z_factor = 0;
  double per_position = 0;  // of a router's own losses (ops/moe/moe.h)
  // What the metrics show of each layer's router, float64: the rows of its experts, and ops::RouterSum. Both undefined:
  // they are not counted.
  at::Tensor loads_LE = {}, router_sums_L3 = {};
};

// The output matrix and the bias of the logits, or their gradients. The bias is undefined if the model has none.
struct OutputWeights {
  at::Tensor matrix_VD, bias_V;
};
// logits = input matrix^T + bias.
void compute_logits(const at::Tensor& logits_CV, const at::Tensor& input_CD, const OutputWeights& output);

// Adds the sums over the counted positions, with their weights, to sums_2 (ops/cross_entropy.h).
void loss_forward(const at::Tensor& sums_2, const Activations& a, const models::Loss& op, const OutputWeights& output,
                  const MicroBatch& batch);

// The same; also writes the gradient of the input. The bias's gradient is added. The matrix's is added with
// `accumulate`, else written.
void loss_forward_backward(const at::Tensor& sums_2, const Activations& a, const models::Loss& op,
                           const OutputWeights& output, const OutputWeights& gradients, bool accumulate,
                           const MicroBatch& batch, const LossScale& scale);

}  // namespace hearth::model
