// SPDX-License-Identifier: Apache-2.0
// One optimizer step: forward and backward of every micro-batch, reduction of gradients over ranks, clipping, update.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "data/batch/batch.h"
#include "metrics/record.h"
#include "model/transformer.h"
#include "ops/readback.h"
#include "ops/step_decision.h"
#include "optim/expert_bias.h"
#include "optim/optimizer.h"
#include "parallel/sharded_weights.h"
#include "train/micro_batch_graph.h"

namespace hearth::train {

struct StepOptions {
  double max_norm = 0;    // training.max_norm; 0: no clipping
  double z_factor = 0;    // objective.z_loss
  bool per_rank = false;  // numerics.loss_average: the mean of the micro-batches' means, with equal weights
  bool graph = false;     // training.cuda_graph: forward and backward are recorded as a graph (micro_batch_graph.h)
  double load_balance_coeff = 0;         // of model.expert_bias
  std::vector<std::string> freeze = {};  // checkpoint.freeze, for biases of experts
};
StepOptions step_options(const config::RunConfig& config);

struct StepResult {
  double loss = 0;  // cross-entropy: weighted losses over all ranks and micro-batches / their weights; or per_rank
  // Averaged in the same way, times their factors; of all layers. The gradient is of the sum of the loss and these.
  metrics::LossParts loss_parts = {};
  double grad_norm = 0;                                // norm of that gradient, before clipping
  double loss_deviations = 0, norm_deviations = 0;     // train/guard.h
  std::vector<metrics::ExpertLoad> expert_loads = {};  // of the layers with experts
  bool applied = false;                                // false: weights and moments are unchanged
  bool counted = true;  // false: no label of the step counts; nothing was computed, and loss and norm are NaN
  double forward_backward_s = 0, norm_s = 0, update_s = 0;  // host time of this rank
};

// The batch's weight in the mean: the sum of its counted labels' weights, or of all counted tokens' (Batch::counted).
double counted_weight(const data::Batch& batch);
std::vector<double> counted_weights(const data::StepBatch& batch);  // of each micro-batch

// Copies the batch to tensors on `device`. `part`: the positions of every sequence to take
// (model::Transformer::sequence_part).
model::MicroBatch to_tensors(const data::Batch& batch, at::Device device = at::kCPU,
                             const plan::SequencePart& part = {});

// A step that may still run: on a GPU its result comes later. The caller can prepare the next step before it waits.
class PendingStep {
 public:
  // Waits for the step's result. Call it once.
  StepResult result();

 private:
  friend class TrainStep;
  PendingStep(std::optional<ops::Readback> decision, std::optional<ops::Readback> routers, StepResult times)
      : decision_(std::move(decision)), routers_(std::move(routers)), result_(std::move(times)) {}

  std::optional<ops::Readback> decision_;  // empty: no label counts
  std::optional<ops::Readback> routers_;   // empty: no experts
  StepResult result_;
};

// Makes steps. Borrows its arguments. No call waits for a GPU.
class TrainStep {
 public:
  TrainStep(model::Transformer& model, parallel::ShardedWeights& weights, optim::ShardedOptimizer& optimizer,
            const StepOptions& options, const ops::GuardRules& rules = {});

  // Sets the guard's state, including the number of updates so far. Also ends a hold.
  void begin_from(const ops::GuardState& state) { decision_.begin_from(state); }

  // Runs step number `step` of the training, from 1, with learning rate `lr`. `counts`: counted_weight of each
  // micro-batch, summed over all ranks. Collective: the same result on every rank.
  PendingStep run(const data::StepBatch& batch, std::span<const double> counts, int64_t step, double lr);
  // The same, but computes the counts and sums them over the ranks.
  PendingStep run(const data::StepBatch& batch, int64_t step, double lr);

 private:
  // `routers_LX`: Transformer::no_router_metrics.
  model::LossScale scale_of_step(double per_position, const at::Tensor& routers_LX) const;
  // The rows of each expert of each layer; undefined if routers_LX is.
  static at::Tensor loads_of(const at::Tensor& routers_LX);
  void sum_router_metrics(const at::Tensor& routers_LX);

  model::Transformer& model_;
  parallel::ShardedWeights& weights_;
  optim::ShardedOptimizer& optimizer_;
  const StepOptions options_;
  optim::ExpertBias expert_bias_;
  ops::StepDecision decision_;
  std::optional<MicroBatchGraph> graph_;
};

}  // namespace hearth::train
