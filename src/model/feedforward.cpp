#include "model/feedforward.h"

#include "model/linear.h"
#include "model/tensor_parallel.h"
#include "ops/swiglu.h"
#include "ops/tensor.h"

namespace hearth::model {

using enum plan::Activation;

void feedforward_forward(const Activations& a, const BlockViews& weights, int64_t layer) {
  linear(a, a(kGateUp, layer), all_rows(a, a(kFeedForwardInput, layer)), weights.w13_FD);
  ops::swiglu_forward(a(kGated, layer), a(kGateUp, layer));
  linear(a, summands_of(a, a(kBranch)), a(kGated, layer), weights.w2_DF);
  sum_rows(a, a(kBranch));
}

void feedforward_backward(const Activations& a, const BlockViews& weights, BlockViews& gradients, int64_t layer) {
  const at::Tensor& dbranch_TD = all_rows(a, a(kStreamGradient));
  const at::Tensor& dgated_TF = a(kGatedGradient);
  const at::Tensor& gate_up_T2F = a(kGateUp, layer);

  const bool kept = a.recompute(layer) == plan::Recompute::kNone;
  const at::Tensor& gated_TF = kept || a.in_halves() ? a(kGated, layer) : dgated_TF;

  if (a.in_halves()) ops::copy_(a(kFeedForwardBranchGradient, layer), a(kStreamGradient));
  linear_input_gradient(a, dgated_TF, dbranch_TD, weights.w2_DF);
  // In place: the gate and up values are not needed again. If w2's input was not kept, this writes it, over its
  // gradient unless it is read later.
  ops::swiglu_backward(gate_up_T2F, dgated_TF, gate_up_T2F, kept ? at::Tensor() : gated_TF);
  if (a.in_halves()) {
    linear_input_gradient(a, summands_of(a, a(kInputGradient)), gate_up_T2F, weights.w13_FD);
    return sum_rows(a, a(kInputGradient));
  }
  ops::matmul_weight_gradient(gradients.w2_DF, dbranch_TD, gated_TF);
  linear_backward(a, a(kInputGradient), gradients.w13_FD, gate_up_T2F, a(kFeedForwardInput, layer), weights.w13_FD);
}

void feedforward_weight_gradients(const Activations& a, BlockViews& gradients, int64_t layer) {
  ops::matmul_weight_gradient(gradients.w2_DF, all_rows(a, a(kFeedForwardBranchGradient, layer)), a(kGated, layer));
  ops::matmul_weight_gradient(gradients.w13_FD, a(kGateUp, layer), all_rows(a, a(kFeedForwardInput, layer)));
}

}  // namespace hearth::model
