// SPDX-License-Identifier: Apache-2.0
// The loss on held-out text: windows in order, every token after the first predicted once, one mean over all tokens. If
// the data weight tokens, it is the weighted mean, and tokens of weight 0 are not predicted. A model of
// masked_diffusion has a bound of this loss (data/batch/diffusion.h).
#pragma once

#include <cstdint>
#include <functional>
#include <span>

#include "data/batch/batch.h"
#include "data/batch/label_rule.h"
#include "data/shard/dataset.h"
#include "metrics/record.h"
#include "model/transformer.h"
#include "parallel/sharded_weights.h"
#include "run/run.h"

namespace hearth::train {

struct ValidationResult {
  double loss_sum = 0;        // in nats, over all ranks
  double counted_tokens = 0;  // number of counted tokens, or the sum of their weights
  double counted_units = 0;   // bytes or spikes of the counted tokens; 0 without token_units
  double loss() const { return loss_sum / counted_tokens; }
};

struct ValidationOptions {
  int64_t seq_len = 0;
  int64_t local_batch_size = 0;            // the model's batch size
  int64_t max_sequences = 0;               // over all ranks, rounded up to whole batches; 0: the whole split
  std::span<const int64_t> token_units{};  // [V]: bytes or spikes of each id; empty: do not count units
  data::LabelRule labels{};                // which labels are predicted; hidden positions are the same in every call
  uint64_t seed = 0;                       // for the hidden positions
  // Called with the numbers of batches that this rank has done, and will have done at the end.
  std::function<void(int64_t done, int64_t all)> progress{};
};

// Bytes or spikes of the batch's counted tokens, with their weights; 0 without token_units.
double counted_units(const data::Batch& batch, std::span<const int64_t> token_units);

// Collective; every rank gets the same result. The weights are not changed.
ValidationResult validate(model::Transformer& model, parallel::ShardedWeights& weights, const data::Split& split,
                          const ValidationOptions& options);

// The loss of each of the run's validation sets, and the mean over all, into `record`. Collective.
void validate(model::Transformer& model, parallel::ShardedWeights& weights, const run::Run& run,
              metrics::StepRecord& record);

}  // namespace hearth::train
