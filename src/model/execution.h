// SPDX-License-Identifier: Apache-2.0
// Computes the ops of a program (models/ops.h) with LibTorch: the only place that knows both. An op becomes a call or
// two of ops/, and communication if ranks share layers or sequences.
#pragma once

#include <ATen/core/Tensor.h>

#include <functional>
#include <span>

#include "model/activations.h"
#include "model/loss_head.h"
#include "model/weights.h"
#include "models/ops.h"
#include "ops/attention.h"
#include "plan/parameters.h"

namespace hearth::model {

// A unit of the model: its flat buffer and its gradient, whose buffer may be undefined. A layer with experts has
// theirs, too.
struct UnitTensors {
  const plan::ParameterPlan& plan;
  int64_t unit;
  at::Tensor weights;
  UnitGradient gradients;
  at::Tensor expert_weights{};
  UnitGradient expert_gradients{};

  // A view of adjacent parameters, [rows, columns] or [elements]; undefined if `which` names no parameter.
  at::Tensor weight(const models::Weight& which) const;
  // The gradient for a caller that adds to it; it is set to zero if nothing has been written yet.
  at::Tensor gradient(const models::Weight& which) const;
  // The gradient for a product, which can write it or add to it. Saves the pass that sets it to zero.
  struct Sum {
    at::Tensor tensor;
    bool accumulate;  // false: its elements are undefined, and the caller writes all of them
  };
  Sum begun_gradient(const models::Weight& which) const;

 private:
  size_t first_of(const models::Weight& which) const;  // its place among the plan's parameters
  bool is_of_experts(const models::Weight& which) const;
  at::Tensor view(const at::Tensor& flat, const models::Weight& which) const;
};

// The weights of a layer, from 0 in the model. Gathers its units.
UnitTensors layer_weights(const plan::ParameterPlan& plan, Weights& weights, int64_t layer);
// The same unit with the buffers to which its gradients are added.
UnitTensors with_gradients(UnitTensors unit, Weights& weights);

// `unit` is the one that has the output matrix.
OutputWeights output_weights(const UnitTensors& unit, const models::Program& program);

// What the ops need besides activations and weights.
struct Inputs {
  const MicroBatch* batch = nullptr;  // used by Embedding, Loss and routers
  ops::AttentionMask mask{};          // used by attention
  at::Tensor sums_2{};                // Loss adds to it (ops/cross_entropy.h)
  LossScale scale{};
  // CachedAttention of heads [N, heads, K]: qkv -> out. `sinks` [H]: undefined if the model has none.
  std::function<void(const at::Tensor& out, const at::Tensor& qkv, const at::Tensor& sinks)> attend_cached{};
};

// Collective over the ranks that share the layers or the sequences.
void execute(const Activations& a, std::span<const models::Op> ops, const UnitTensors& unit, const Inputs& inputs);

}  // namespace hearth::model
