// The Llama decoder with explicit forward and backward, or the layers of it that a stage of a pipeline has, written for
// one device. Pre-norm blocks:
//
//   stream = embedding(tokens)                                              first stage; others receive it: input()
//   for each block:  stream += attention(norm(stream));  stream += feedforward(norm(stream))
//   loss = cross_entropy(output(norm(stream)), labels)                      last stage; others send it: output()
//
// A branch's output is added to the stream together with the next norm (one pass over memory). So each block begins
// with the addition of the previous block's output.
//
// Weights come unit by unit through model::Weights, which may gather and reduce over ranks. So every call here with
// weights is Collective over dp, and over the ranks that share the layers (model/tensor_parallel.h). The next unit is
// gathered while one computes.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <utility>

#include "model/activations.h"
#include "model/loss_head.h"
#include "model/unit_views.h"
#include "model/weights.h"
#include "ops/attention.h"

namespace hearth::model {

class Stage {
 public:
  // Borrows the plan.
  Stage(const plan::ParameterPlan& plan, Activations activations) : plan_(plan), a_(std::move(activations)) {}

  // The calls below are for the micro-batch in this slot.
  void use_slot(int64_t slot) { a_.use_slot(slot); }

  // tokens, or input() -> what a loss or backward needs, or output().
  void forward(Weights& weights, const MicroBatch& batch);

  // The last stage, after forward. Adds the sums over the counted labels, with their weights, to sums_2
  // (ops/cross_entropy.h).
  void loss(const at::Tensor& sums_2, Weights& weights, const MicroBatch& batch);
  // The same, with the gradient of what forward left.
  void loss_and_gradient(const at::Tensor& sums_2, Weights& weights, const MicroBatch& batch, const LossScale& scale);

  // After forward, and after loss_and_gradient or with the gradient of output() in its place. Leaves the gradient of
  // input() in that place, too, and adds to weights.gradient(unit) of every unit. Announces each unit with
  // gradient_ready, from the last to the first. If gradients are computed in halves (plan::Backward::kInHalves), the
  // blocks' units wait for weight_gradients(), which adds those of their matrices.
  void backward(Weights& weights, const MicroBatch& batch);
  void weight_gradients(Weights& weights);

  // After forward in the last stage: the logits [T, V] of that batch, or [N, V] of given positions, int64 [N]. V is of
  // the whole vocabulary, also where ranks share it.
  at::Tensor logits(Weights& weights, const at::Tensor& positions_N);

  // [T, D], or this rank's rows. An output's place later has its gradient, and at last that of the input.
  const at::Tensor& input() const { return a_(plan::Activation::kStream); }
  const at::Tensor& output() const { return a_(plan::Activation::kStreamGradient); }

  const Activations& activations() const { return a_; }

 private:
  ops::AttentionMask mask_of(const MicroBatch& batch) const;
  // Units of the model: of a layer here, from 0, and the last one.
  int64_t unit_of(int64_t layer) const { return 1 + a_.shape.layers.first + layer; }
  int64_t last_unit() const { return static_cast<int64_t>(plan_.units.size()) - 1; }
  BlockViews block(const at::Tensor& flat, int64_t layer) const;
  // The output matrix and its unit: the embedding's if the weights are tied.
  int64_t output_unit() const { return a_.shape.tied ? 0 : last_unit(); }
  const plan::Parameter& output_matrix() const {
    return a_.shape.tied ? plan_.parameters.front() : plan_.parameters.back();
  }
  at::Tensor output_VD(Weights& weights);
  at::Tensor all_columns(const at::Tensor& part_NV) const;
  at::Tensor output_gradient_VD(Weights& weights);

  const plan::ParameterPlan& plan_;
  Activations a_;
};

}  // namespace hearth::model
