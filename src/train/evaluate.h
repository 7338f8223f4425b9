// Loss over the held-out text: windows in order, every token after the first predicted once, one global token mean.
// Where the data weigh tokens it is the mean over weights, and what weighs 0 is not predicted.
#pragma once

#include <cstdint>
#include <span>

#include "data/batch/label_rule.h"
#include "data/shard/dataset.h"
#include "model/transformer.h"
#include "parallel/sharded_weights.h"

namespace hearth::train {

struct Evaluation {
  double loss_sum = 0;        // in nats, over all ranks
  double counted_tokens = 0;  // their weights, where the data give some
  double counted_units = 0;   // bytes or spikes of the counted tokens; 0 if unknown
  double loss() const { return loss_sum / counted_tokens; }
};

struct EvaluationOptions {
  int64_t seq_len = 0;
  int64_t local_batch_size = 0;            // as the model was made for
  int64_t max_sequences = 0;               // over all ranks, rounded up to whole batches; 0: the whole split
  std::span<const int64_t> token_units{};  // bytes or spikes of each id, [V]; empty: not counted
  data::LabelRule labels{};                // the rule for labels; the same positions are hidden at every call
  uint64_t seed = 0;                       // of the hidden positions
};

// Collective: the same result on every rank. The weights are only read.
Evaluation evaluate(model::Transformer& model, parallel::ShardedWeights& weights, const data::Split& split,
                    const EvaluationOptions& options);

}  // namespace hearth::train
