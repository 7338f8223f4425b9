// SPDX-License-Identifier: Apache-2.0
// The model on one rank: all layers (model/stage.h), or the stages of a pipeline that the rank has. Micro-batches go
// through in the order of plan/pipeline_plan.h. A rank computes while its transfers to and from the neighbouring stages
// are under way.
//
// Every call with weights is Collective over dp, over the ranks that share the layers, and over the pipeline's ranks.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <map>
#include <span>
#include <utility>
#include <vector>

#include "model/stage.h"
#include "plan/pipeline_plan.h"

namespace hearth::model {

class Transformer {
 public:
  // For micro-batches of B sequences of S tokens. `shape`: of all layers; ComputeOptions::recompute has one level for
  // each of them. Borrows the plan; allocates all activations.
  Transformer(const plan::ModelShape& shape, const plan::ParameterPlan& plan, int64_t B, int64_t S,
              const ComputeOptions& options);
  ~Transformer();
  Transformer(const Transformer&) = delete;
  Transformer& operator=(const Transformer&) = delete;

  // Adds to sums_M2 the sums over each micro-batch's counted labels, with their weights (ops/cross_entropy.h). Ranks
  // without the last stage leave them as they are. All tensors are on the model's device.
  void loss(const at::Tensor& sums_M2, Weights& weights, std::span<const MicroBatch> batches);

  // The same with gradients. `scales` defines the loss of each micro-batch. Adds its gradient to weights.gradient(unit)
  // of every unit, and announces each unit, from the last to the first, with gradient_ready.
  void loss_and_gradient(const at::Tensor& sums_M2, Weights& weights, std::span<const MicroBatch> batches,
                         std::span<const LossScale> scales);

  // The same for one micro-batch and a rank with all layers. Waits for the sums and returns them.
  ops::CrossEntropy loss(Weights& weights, const MicroBatch& batch);
  ops::CrossEntropy loss_and_gradient(Weights& weights, const MicroBatch& batch, double scale, double z_factor = 0);

  // After loss() of one micro-batch, on a rank with the last layers: the logits [T, V] of that batch, or [N, V] of
  // given positions, int64 [N].
  at::Tensor logits(Weights& weights, const at::Tensor& positions_N = {});

  // Whether the computation depends on document boundaries or padding, in addition to the batch's shape.
  bool needs_boundaries() const { return activations().shape().document_scope || !activations().shape().causal; }

  // Zeros of all layers, [L, columns] float64: LossScale::router_sums_L3, and behind it loads_LE. Undefined if no layer
  // has experts.
  at::Tensor no_router_metrics() const;

  // The number of micro-batches that one call takes in training.
  int64_t micro_batches() const { return pipeline_.micro_batches; }
  bool has_output() const { return stages_.back().activations().shape().has_output(); }
  int64_t tokens() const { return activations().tokens(); }  // of a micro-batch, on this rank
  // This rank's part of every sequence.
  plan::SequencePart sequence_part() const { return activations().sequence_part(); }
  int64_t memory_bytes() const { return memory_bytes_; }  // of the activations
  at::Device device() const { return activations().device(); }

 private:
  // What one call works on.
  struct Call {
    const at::Tensor& sums_M2;
    Weights& weights;
    std::span<const MicroBatch> batches;
    std::span<const LossScale> scales;  // empty: without gradients
  };

  void run(const Call& call);
  void compute(Stage& stage, const plan::Action& action, const Call& call);
  const plan::RankSchedule& schedule_of(const Call& call);
  const Activations& activations() const { return stages_.front().activations(); }

  const plan::Pipeline pipeline_;
  comm::Group* const group_;  // null: one rank
  const int64_t num_layers_;
  int64_t num_experts_ = 0;  // of the layer with most
  int64_t memory_bytes_ = 0;
  std::vector<Stage> stages_;
  std::map<std::pair<bool, int64_t>, plan::RankSchedule>
      schedules_;  // key: training or not, and the number of micro-batches
};

}  // namespace hearth::model
