// The Llama decoder with explicit forward and backward, written for one device. Pre-norm blocks:
//
//   stream = embedding(tokens)
//   for each block:  stream += attention(norm(stream));  stream += feedforward(norm(stream))
//   loss = cross_entropy(output(norm(stream)), labels)
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

#include "model/activations.h"
#include "model/loss_head.h"
#include "model/weights.h"
#include "ops/attention.h"

namespace hearth::model {

class Transformer {
 public:
  // For micro-batches of B sequences of S tokens. Borrows the plan; allocates all activations.
  Transformer(const plan::ModelShape& shape, const plan::ParameterPlan& plan, int64_t B, int64_t S,
              const ComputeOptions& options)
      : plan_(plan), a_(shape, B, S, options) {}

  // Adds the sums over the counted labels, with their weights, to sums_2 (ops/cross_entropy.h). All tensors are on the
  // model's device.
  void loss(const at::Tensor& sums_2, Weights& weights, const MicroBatch& batch);

  // The same with gradients. Adds the gradient of the loss, which `scale` defines, to weights.gradient(unit) of every
  // unit. Announces each unit, from the last to the first, with gradient_ready.
  void loss_and_gradient(const at::Tensor& sums_2, Weights& weights, const MicroBatch& batch, const LossScale& scale);

  // The same, but waits for the sums and returns them.
  ops::CrossEntropy loss(Weights& weights, const MicroBatch& batch);
  ops::CrossEntropy loss_and_gradient(Weights& weights, const MicroBatch& batch, double scale, double z_factor = 0);

  // For tests and tools, after loss(): the logits [T, V] of that batch, or [N, V] of given positions, int64 [N]. Not
  // used in training, and not with a part of a model.
  at::Tensor logits(Weights& weights, const at::Tensor& positions_N = {});

  // Whether the computation depends on document boundaries or padding, in addition to the batch's shape.
  bool needs_boundaries() const { return a_.shape.document_scope || !a_.shape.causal; }

  int64_t tokens() const { return a_.tokens(); }  // of a micro-batch, on this rank
  // This rank's part of every sequence.
  plan::Part sequence_part() const { return {a_.context == nullptr ? 0 : a_.context->rank(), a_.shape.context}; }
  int64_t memory_bytes() const { return a_.memory_bytes(); }  // of the activations
  at::Device device() const { return a_.device(); }

 private:
  void forward(Weights& weights, const MicroBatch& batch);
  void backward(Weights& weights, const MicroBatch& batch);
  ops::AttentionMask mask_of(const MicroBatch& batch) const;
  int64_t last_unit() const { return static_cast<int64_t>(plan_.units.size()) - 1; }
  // The output matrix, or its gradient, in the unit that holds it (tied weights: the embedding's).
  at::Tensor output_VD(Weights& weights);
  at::Tensor output_gradient_VD(Weights& weights);
  // The weights of the final norm and of the output matrix are no longer needed.
  void release_output(Weights& weights);

  const plan::ParameterPlan& plan_;
  Activations a_;
};

}  // namespace hearth::model
