// SPDX-License-Identifier: Apache-2.0
// The layers of a model, or of a stage of a pipeline, on one device: runs the stage's program (models/stage_program.h)
// section by section. The first stage has the token embedding; others receive their input. The last one has the final
// norm and the loss; others send their output.
//
// Weights come unit by unit through model::Weights, which may gather and reduce over ranks. So every call here with
// weights is Collective over dp, and over the ranks that share the layers (model/tensor_parallel.h). The next unit is
// gathered while one unit computes.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <utility>

#include "model/activations.h"
#include "model/execution.h"
#include "model/loss_head.h"
#include "model/weights.h"

namespace hearth::model {

class Stage {
 public:
  // Borrows the plan.
  Stage(const plan::ParameterPlan& plan, Activations activations) : plan_(plan), a_(std::move(activations)) {}

  // The calls below are for the micro-batch in this slot.
  void use_slot(int64_t slot) { a_.use_slot(slot); }

  // Reads the tokens, or input(). Leaves what loss and backward need, or output().
  void forward(Weights& weights, const MicroBatch& batch);

  // The last stage, after forward. Adds the sums over the counted labels, with their weights, to sums_2
  // (ops/cross_entropy.h).
  void loss(const at::Tensor& sums_2, Weights& weights, const MicroBatch& batch);
  // The same, and computes the gradient of forward's result.
  void loss_and_gradient(const at::Tensor& sums_2, Weights& weights, const MicroBatch& batch, const LossScale& scale);

  // Call it after forward, and after loss_and_gradient or with the gradient of output() in place of output().
  // Overwrites input() with its gradient, and adds to weights.gradient(unit) of every unit. Announces each unit with
  // gradient_ready, from the last to the first. If gradients are computed in halves (plan::Backward::kInHalves), the
  // blocks' units wait for weight_gradients(), which adds their matrices' gradients.
  void backward(Weights& weights, const MicroBatch& batch, const LossScale& scale);
  void weight_gradients(Weights& weights);

  // After forward in the last stage: the logits [T, V] of that batch, or [N, V] of given positions, int64 [N]. V is the
  // whole vocabulary, even if ranks share it.
  at::Tensor logits(Weights& weights, const at::Tensor& positions_N);

  // [T, D], or this rank's rows. In backward the output's buffer receives its gradient, and at the end the gradient of
  // the input.
  at::Tensor input() const { return a_(a_.program().input); }
  at::Tensor output() const { return a_(a_.program().dstream); }

  const Activations& activations() const { return a_; }

 private:
  using Section = models::Section;
  const plan::ModelShape& shape() const { return a_.shape(); }
  Inputs inputs_of(const MicroBatch& batch) const;
  // The number in the model of this stage's layer `layer`, from 0.
  int64_t in_model(int64_t layer) const { return shape().stage.first + layer; }
  // Calls one function of Weights for the units of this stage's layer `layer`.
  void for_units(int64_t layer, Weights& weights, void (Weights::*call)(int64_t unit)) const;
  // Numbers of units in the model: the last unit; the output matrix's unit, which is the embedding's if weights are
  // tied.
  int64_t last_unit() const { return static_cast<int64_t>(plan_.units.size()) - 1; }
  int64_t output_unit() const { return shape().tied ? 0 : last_unit(); }
  // Runs a section's ops with the weights of a unit, and with its gradients in a training.
  void run(Section section, int64_t layer, const UnitTensors& unit, const Inputs& inputs) {
    a_.use_layer(layer);
    execute(a_, a_.program().ops_of(section, layer), unit, inputs);
  }
  UnitTensors forward_of(Weights& weights, int64_t unit) const { return {plan_, unit, weights.gather(unit), {}}; }
  UnitTensors backward_of(Weights& weights, int64_t unit) const {
    return {plan_, unit, weights.gather(unit), weights.gradient_to_write(unit)};
  }
  at::Tensor all_columns(const at::Tensor& part_NV) const;

  const plan::ParameterPlan& plan_;
  Activations a_;
};

}  // namespace hearth::model
