// One optimizer step: every micro-batch forward and backward, gradients reduced over the ranks, clipped, applied.
#pragma once

#include <cstdint>
#include <optional>

#include "data/batch/batch.h"
#include "model/transformer.h"
#include "ops/readback.h"
#include "ops/step_decision.h"
#include "optim/adamw.h"
#include "parallel/sharded_weights.h"
#include "train/micro_batch_graph.h"

namespace hearth::train {

struct StepOptions {
  double max_norm = 0;    // training.max_norm; 0: no clipping
  double z_factor = 0;    // objective.z_loss
  bool per_rank = false;  // numerics.loss_average: the mean of micro-batches' means, each weighing the same
  bool graph = false;     // training.cuda_graph: forward and backward are recorded once (micro_batch_graph.h)
};
StepOptions step_options(const config::RunConfig& config);

struct StepResult {
  double loss = 0;       // cross-entropy: weighted losses over all ranks and micro-batches / their weights; or per_rank
  double z_loss = 0;     // the mean of the z-loss times z_factor; the gradient is that of loss + z_loss
  double grad_norm = 0;  // of that, before clipping
  double loss_deviations = 0, norm_deviations = 0;  // train/guard.h
  bool applied = false;                             // false: weights and moments are as they were
  bool counted = true;  // false: no label of the step counts; nothing was computed, and loss and norm are NaN
  double forward_backward_s = 0, norm_s = 0, update_s = 0;  // where this rank's host spent its time
};

// The batch's weight in the mean: the sum of its counted labels' weights.
double counted_weight(const data::Batch& batch);

// The batch as tensors on `device`. Copies.
model::MicroBatch to_tensors(const data::Batch& batch, at::Device device = at::kCPU);

// A step whose work is under way, or done: on a GPU its result comes later.
class PendingStep {
 public:
  // Waits for it. Once.
  StepResult result();

 private:
  friend class TrainStep;
  PendingStep(std::optional<ops::Readback> decision, StepResult times)
      : decision_(std::move(decision)), result_(times) {}

  std::optional<ops::Readback> decision_;  // nothing: no label counts
  StepResult result_;
};

// Makes steps. Borrows all it is given. On a GPU no call waits for it.
class TrainStep {
 public:
  TrainStep(model::Transformer& model, parallel::ShardedWeights& weights, optim::AdamW& optimizer,
            const StepOptions& options, const ops::GuardRules& rules = {});

  // The guard's state, and the optimizer's count of updates. Also ends a hold.
  void begin_from(const ops::GuardState& state) { decision_.begin_from(state); }

  // Step number `step` of the training, from 1, with this learning rate. Collective: the same result on every rank.
  PendingStep run(const data::StepBatch& batch, int64_t step, double lr);

 private:
  model::Transformer& model_;
  parallel::ShardedWeights& weights_;
  optim::AdamW& optimizer_;
  const StepOptions options_;
  ops::StepDecision decision_;
  std::optional<MicroBatchGraph> graph_;
};

}  // namespace hearth::train
