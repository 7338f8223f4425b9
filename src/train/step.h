// One optimizer step: every micro-batch forward and backward, gradients reduced over the ranks, clipped, applied.
#pragma once

#include <cstdint>
#include <functional>

#include "data/batch.h"
#include "model/transformer.h"
#include "optim/adamw.h"
#include "parallel/sharded_weights.h"

namespace hearth::train {

// What is differentiated, beside the cross-entropy's sums.
struct LossOptions {
  double z_factor = 0;    // objective.z_loss
  bool per_rank = false;  // numerics.loss_average: the mean of micro-batches' means, each weighing the same
};

struct StepResult {
  double loss = 0;       // cross-entropy: weighted losses over all ranks and micro-batches / their weights; or per_rank
  double z_loss = 0;     // averaged alike, times z_factor; what is differentiated is loss + z_loss
  double grad_norm = 0;  // of that, before clipping
  bool applied = false;  // false: the step was not accepted, and weights and moments are as they were
  double forward_backward_s = 0, norm_s = 0, update_s = 0;  // where this rank's time went
};

// What a batch weighs in the mean: the sum of its counted labels' weights.
double counted_weight(const data::Batch& batch);

// The batch as tensors. Copies.
model::MicroBatch to_tensors(const data::Batch& batch);

// Whether loss and norm are numbers.
bool is_finite(const StepResult& result);

// Update number t of the optimizer's moments, counted from 1. `lr` of this step; max_norm 0: no clipping. `accept` sees
// loss and norm before the update, and must decide alike on every rank; they are the same on all. Collective: the same
// result on every rank.
StepResult train_step(model::Transformer& model, parallel::ShardedWeights& weights, optim::AdamW& optimizer,
                      const data::StepBatch& batch, int64_t t, double lr, double max_norm,
                      const LossOptions& options = {},
                      const std::function<bool(const StepResult&)>& accept = is_finite);

}  // namespace hearth::train
