// A micro-batch's forward and backward as one piece of work for the GPU: training.cuda_graph. The first micro-batch
// runs as it always does, the second is recorded (ops/gpu/graph.h), and from then on each is one call of the host, in
// which nothing but the batch's numbers differs. They are copied to where the recorded work reads them.
//
// So the enqueued work may depend only on the shape. Positions whose labels do not count go through the head with the
// others and change nothing; attention within documents, or around padding, cannot be recorded.
#pragma once

#include <ATen/core/Tensor.h>

#include "model/transformer.h"
#include "ops/gpu/graph.h"
#include "parallel/sharded_weights.h"

namespace hearth::train {

class MicroBatchGraph {
 public:
  // Borrows both. The same bits as Transformer::loss_and_gradient where every label counts.
  MicroBatchGraph(model::Transformer& model, parallel::ShardedWeights& weights, double z_factor);

  // As Transformer::loss_and_gradient. Weights are gathered before and announced after the recorded work: what they do
  // then is the host's decision, step by step.
  void run(const at::Tensor& sums_2, const model::MicroBatch& batch, const at::Tensor& scale_1);

 private:
  // Those of the recorded work: whole already, and announced by run().
  class Whole final : public model::Weights {
   public:
    explicit Whole(model::Weights& weights) : weights_(weights) {}
    at::Tensor gather(int64_t unit) override { return weights_.gather(unit); }
    at::Tensor gradient(int64_t unit) override { return weights_.gradient(unit); }
    void gradient_ready(int64_t) override {}

   private:
    model::Weights& weights_;
  };

  model::Transformer& model_;
  parallel::ShardedWeights& weights_;
  Whole whole_;
  const double z_factor_;
  // The buffers of the recorded work.
  model::MicroBatch batch_;
  at::Tensor scale_1_, sums_2_;
  at::Tensor ones_T_;  // weights for a batch without weights
  bool ran_once_ = false;
  ops::Graph graph_;
};

}  // namespace hearth::train
