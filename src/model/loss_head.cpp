// SPDX-License-Identifier: Apache-2.0
#include "model/loss_head.h"

#include <algorithm>
#include <utility>

#include "ops/matmul.h"
#include "ops/rows.h"
#include "ops/tensor.h"

namespace hearth::model {

namespace {

// The head's tensors. Gradients are undefined without training; what counted positions need, where there are no others.
struct Head {
  at::Tensor logits_CV, input_TD, gradient_TD, counted_CD, counted_gradient_CD;
};
Head head_of(const Activations& a, const models::Loss& op) {
  return {a(op.logits), a(op.input), a(op.dinput), a(op.counted), a(op.dcounted)};
}

// A group of positions in the head: a range of positions, or counted ones.
struct Chunk {
  at::Tensor input_CD, input_gradient_CD;  // the gradient is undefined without training
  at::Tensor labels_C, weights_C;
  at::Tensor index_C;  // their positions; undefined: a range, whose tensors are views
};

at::Tensor part_of(const at::Tensor& tensor, int64_t first, int64_t count) {
  return tensor.defined() && tensor.numel() > 0 ? tensor.narrow(0, first, count) : at::Tensor();
}

Chunk stretch(const Head& head, const MicroBatch& batch, int64_t first, int64_t count) {
  return {part_of(head.input_TD, first, count),
          part_of(head.gradient_TD, first, count),
          part_of(batch.labels_T, first, count),
          part_of(batch.weights_T, first, count),
          {}};
}

Chunk counted(const Head& head, const MicroBatch& batch, int64_t first, int64_t count) {
  Chunk chunk{part_of(head.counted_CD, 0, count),
              part_of(head.counted_gradient_CD, 0, count),
              {},
              {},
              part_of(batch.counted_N, first, count)};
  ops::gather_rows(chunk.input_CD, head.input_TD, chunk.index_C);
  chunk.labels_C = ops::gathered(batch.labels_T, chunk.index_C);
  if (batch.weights_T.defined()) chunk.weights_C = ops::gathered(batch.weights_T, chunk.index_C);
  return chunk;
}

bool only_counted(const Head& head, const MicroBatch& batch) {
  return batch.counted_N.defined() && head.counted_CD.defined();
}

// Calls body(chunk, logits) for each chunk.
template <typename Body>
void for_each_chunk(const Head& head, const OutputWeights& output, const MicroBatch& batch, Body body) {
  const bool some = only_counted(head, batch);
  const int64_t N = some ? batch.counted_N.numel() : head.input_TD.size(0), C = head.logits_CV.size(0);
  for (int64_t first = 0; first < N; first += C) {
    const int64_t count = std::min(C, N - first);
    const Chunk chunk = some ? counted(head, batch, first, count) : stretch(head, batch, first, count);
    const at::Tensor logits_CV = head.logits_CV.narrow(0, 0, count);
    compute_logits(logits_CV, chunk.input_CD, output);
    body(chunk, logits_CV);
  }
}

// The chunk's loss; with `scale` also the gradient of its logits, in their place.
void chunk_loss(const at::Tensor& sums_2, const Activations& a, const Chunk& chunk, const at::Tensor& logits_CV,
                const LossScale& scale) {
  if (a.tensor == nullptr) {
    if (!scale.scale_1.defined()) return ops::cross_entropy_forward(sums_2, logits_CV, chunk.labels_C, chunk.weights_C);
    return ops::cross_entropy_forward_backward(sums_2, logits_CV, chunk.labels_C, scale.scale_1, chunk.weights_C,
                                               scale.z_factor);
  }
  const int64_t C = logits_CV.size(0), R = a.tensor->size();
  const at::Tensor statistics_RC2 = ops::empty({R, C, 2}, DType::kFloat64, a.device());
  const at::Tensor own_C2 = statistics_RC2.select(0, a.tensor->rank());
  ops::cross_entropy_statistics(own_C2, logits_CV, chunk.labels_C, a.shape().vocabulary);
  a.tensor->all_gather(statistics_RC2, own_C2);
  ops::vocabulary_parallel_cross_entropy(sums_2, logits_CV, chunk.labels_C, statistics_RC2, a.shape().vocabulary,
                                         scale.scale_1, chunk.weights_C, scale.z_factor);
}

}  // namespace

void compute_logits(const at::Tensor& logits_CV, const at::Tensor& input_CD, const OutputWeights& output) {
  ops::matmul(logits_CV, input_CD, output.matrix_VD);
  if (output.bias_V.defined()) ops::add_bias(logits_CV, output.bias_V);
}

void loss_forward(const at::Tensor& sums_2, const Activations& a, const models::Loss& op, const OutputWeights& output,
                  const MicroBatch& batch) {
  for_each_chunk(head_of(a, op), output, batch,
                 [&](const Chunk& chunk, const at::Tensor& logits_CV) { chunk_loss(sums_2, a, chunk, logits_CV, {}); });
}

void loss_forward_backward(const at::Tensor& sums_2, const Activations& a, const models::Loss& op,
                           const OutputWeights& output, const OutputWeights& gradients, bool accumulate,
                           const MicroBatch& batch, const LossScale& scale) {
  const Head head = head_of(a, op);
  // Positions that do not go through the head have gradient 0.
  if (only_counted(head, batch)) ops::zero_(head.gradient_TD);
  for_each_chunk(head, output, batch, [&](const Chunk& chunk, const at::Tensor& logits_CV) {
    chunk_loss(sums_2, a, chunk, logits_CV, scale);
    const at::Tensor& dlogits_CV = logits_CV;
    ops::matmul_weight_gradient(gradients.matrix_VD, dlogits_CV, chunk.input_CD, std::exchange(accumulate, true));
    if (gradients.bias_V.defined()) ops::bias_gradient(gradients.bias_V, dlogits_CV);
    ops::matmul_input_gradient(chunk.input_gradient_CD, dlogits_CV, output.matrix_VD, /*accumulate=*/false);
    if (chunk.index_C.defined()) ops::scatter_rows(head.gradient_TD, chunk.input_gradient_CD, chunk.index_C);
  });
  if (!accumulate) ops::zero_(gradients.matrix_VD);  // no position counts
}

}  // namespace hearth::model
