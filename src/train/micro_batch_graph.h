// SPDX-License-Identifier: Apache-2.0
// A micro-batch's forward and backward as one recorded graph on the GPU: training.cuda_graph. The first micro-batch
// runs normally and the second is recorded (ops/gpu/graph.h). From then on each micro-batch costs the host one call.
// Only the batch's numbers differ, and they are copied to the buffers that the graph reads. Use it where the host
// cannot enqueue small kernels fast enough for the GPU.
//
// The work may depend on the batch's shape only. So positions whose labels do not count go through the output matrix,
// too, and change nothing. Attention within documents, or around padding, cannot be recorded.
#pragma once

#include <ATen/core/Tensor.h>

#include "model/transformer.h"
#include "ops/gpu/graph.h"
#include "parallel/sharded_weights.h"

namespace hearth::train {

class MicroBatchGraph {
 public:
  // Borrows both. The result has the same bits as Transformer::loss_and_gradient if every label counts, and if a
  // product has the same bits when it is added to zeros (a GPU's library may choose another kernel).
  MicroBatchGraph(model::Transformer& model, parallel::ShardedWeights& weights, double z_factor);

  // Same as Transformer::loss_and_gradient. Gathers weights before the recorded work and announces gradients after it,
  // because the host decides in each step what these calls do.
  void run(const at::Tensor& sums_2, const model::MicroBatch& batch, const at::Tensor& scale_1);

 private:
  // The weights that the recorded work uses. They are already gathered, and run() announces their gradients.
  class Whole final : public model::Weights {
   public:
    explicit Whole(model::Weights& weights) : weights_(weights) {}
    at::Tensor gather(int64_t unit) override { return weights_.gather(unit); }
    void prefetch(int64_t) override {}
    void release(int64_t) override {}
    at::Tensor gradient(int64_t unit) override { return weights_.gradient(unit); }
    void gradient_ready(int64_t) override {}

   private:
    model::Weights& weights_;
  };

  model::Transformer& model_;
  parallel::ShardedWeights& weights_;
  Whole whole_;
  const double z_factor_;
  // The inputs and outputs of the recorded work.
  model::MicroBatch batch_;
  at::Tensor scale_1_, sums_2_;
  at::Tensor ones_T_;  // the weights of a batch without weights
  bool ran_once_ = false;
  ops::Graph graph_;
};

}  // namespace hearth::train
