#include "model/loss_head.h"

#include <algorithm>

#include "ops/cross_entropy.h"
#include "ops/matmul.h"

namespace hearth::model {

using enum plan::Activation;

namespace {

// Calls body(first token, number of tokens, logits of that many) for each chunk, with logits = input output^T.
template <typename Body>
void for_each_chunk(const Activations& a, const at::Tensor& output_VD, Body body) {
  const int64_t T = a.B * a.S, C = a(kLogits).size(0);
  for (int64_t first = 0; first < T; first += C) {
    const int64_t count = std::min(C, T - first);
    const at::Tensor logits_CV = a(kLogits).narrow(0, 0, count);
    ops::matmul(logits_CV, a(kFinalInput).narrow(0, first, count), output_VD);
    body(first, count, logits_CV);
  }
}

at::Tensor weights_of(const MicroBatch& batch, int64_t first, int64_t count) {
  return batch.weights_T.defined() ? batch.weights_T.narrow(0, first, count) : at::Tensor();
}

}  // namespace

double loss_forward(const Activations& a, const at::Tensor& output_VD, const MicroBatch& batch) {
  double sum = 0;
  for_each_chunk(a, output_VD, [&](int64_t first, int64_t count, const at::Tensor& logits_CV) {
    sum +=
        ops::cross_entropy_forward(logits_CV, batch.labels_T.narrow(0, first, count), weights_of(batch, first, count));
  });
  return sum;
}

double loss_forward_backward(const Activations& a, const at::Tensor& output_VD, const at::Tensor& output_gradient_VD,
                             const MicroBatch& batch, double loss_scale) {
  double sum = 0;
  for_each_chunk(a, output_VD, [&](int64_t first, int64_t count, const at::Tensor& logits_CV) {
    sum += ops::cross_entropy_forward_backward(logits_CV, batch.labels_T.narrow(0, first, count), loss_scale,
                                               weights_of(batch, first, count));
    const at::Tensor& dlogits_CV = logits_CV;
    ops::matmul_weight_gradient(output_gradient_VD, dlogits_CV, a(kFinalInput).narrow(0, first, count));
    ops::matmul_input_gradient(a(kInputGradient).narrow(0, first, count), dlogits_CV, output_VD, /*accumulate=*/false);
  });
  return sum;
}

}  // namespace hearth::model
