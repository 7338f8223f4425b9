#include "model/loss_head.h"

#include <algorithm>

#include "ops/matmul.h"
#include "ops/rows.h"
#include "ops/tensor.h"

namespace hearth::model {

using enum plan::Activation;

namespace {

// A group of positions in the head: a range of positions, or counted ones.
struct Chunk {
  at::Tensor input_CD, input_gradient_CD;  // the gradient is undefined without training
  at::Tensor labels_C, weights_C;
  at::Tensor index_C;  // their positions; undefined: a range, whose tensors are views
};

at::Tensor part_of(const at::Tensor& tensor, int64_t first, int64_t count) {
  return tensor.defined() && tensor.numel() > 0 ? tensor.narrow(0, first, count) : at::Tensor();
}

Chunk stretch(const Activations& a, const MicroBatch& batch, int64_t first, int64_t count) {
  return {part_of(a(kFinalInput), first, count),
          part_of(a(kInputGradient), first, count),
          part_of(batch.labels_T, first, count),
          part_of(batch.weights_T, first, count),
          {}};
}

Chunk counted(const Activations& a, const MicroBatch& batch, int64_t first, int64_t count) {
  Chunk chunk{part_of(a(kHeadInput), 0, count),
              part_of(a(kHeadGradient), 0, count),
              {},
              {},
              part_of(batch.counted_N, first, count)};
  ops::gather_rows(chunk.input_CD, a(kFinalInput), chunk.index_C);
  chunk.labels_C = ops::gathered(batch.labels_T, chunk.index_C);
  if (batch.weights_T.defined()) chunk.weights_C = ops::gathered(batch.weights_T, chunk.index_C);
  return chunk;
}

bool only_counted(const Activations& a, const MicroBatch& batch) {
  return batch.counted_N.defined() && a(kHeadInput).size(0) > 0;
}

// Calls body(chunk, logits) for each chunk, with logits = input output^T.
template <typename Body>
void for_each_chunk(const Activations& a, const at::Tensor& output_VD, const MicroBatch& batch, Body body) {
  const bool some = only_counted(a, batch);
  const int64_t N = some ? batch.counted_N.numel() : a.B * a.S, C = a(kLogits).size(0);
  for (int64_t first = 0; first < N; first += C) {
    const int64_t count = std::min(C, N - first);
    const Chunk chunk = some ? counted(a, batch, first, count) : stretch(a, batch, first, count);
    const at::Tensor logits_CV = a(kLogits).narrow(0, 0, count);
    ops::matmul(logits_CV, chunk.input_CD, output_VD);
    body(chunk, logits_CV);
  }
}

}  // namespace

void loss_forward(const at::Tensor& sums_2, const Activations& a, const at::Tensor& output_VD,
                  const MicroBatch& batch) {
  for_each_chunk(a, output_VD, batch, [&](const Chunk& chunk, const at::Tensor& logits_CV) {
    ops::cross_entropy_forward(sums_2, logits_CV, chunk.labels_C, chunk.weights_C);
  });
}

void loss_forward_backward(const at::Tensor& sums_2, const Activations& a, const at::Tensor& output_VD,
                           const at::Tensor& output_gradient_VD, const MicroBatch& batch, const LossScale& scale) {
  // Positions that do not go through the head have gradient 0.
  if (only_counted(a, batch)) ops::zero_(a(kInputGradient));
  for_each_chunk(a, output_VD, batch, [&](const Chunk& chunk, const at::Tensor& logits_CV) {
    ops::cross_entropy_forward_backward(sums_2, logits_CV, chunk.labels_C, scale.scale_1, chunk.weights_C,
                                        scale.z_factor);
    const at::Tensor& dlogits_CV = logits_CV;
    ops::matmul_weight_gradient(output_gradient_VD, dlogits_CV, chunk.input_CD);
    ops::matmul_input_gradient(chunk.input_gradient_CD, dlogits_CV, output_VD, /*accumulate=*/false);
    if (chunk.index_C.defined()) ops::scatter_rows(a(kInputGradient), chunk.input_gradient_CD, chunk.index_C);
  });
}

}  // namespace hearth::model
