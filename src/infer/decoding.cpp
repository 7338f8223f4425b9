// SPDX-License-Identifier: Apache-2.0
#include "infer/decoding.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "base/error.h"
#include "ops/tensor.h"

namespace hearth::infer {

void check_numbers(std::span<const double> logits, const LoadedModel& model) {
  if (std::none_of(logits.begin(), logits.end(), [](double logit) { return std::isnan(logit); })) return;
  throw damaged(fmt::format("{} gives no probabilities", model.folder.string()),
                "its logits are NaN: the training diverged", "take an earlier checkpoint");
}

void compute_sequences(model::Transformer& transformer, parallel::ShardedWeights& weights,
                       std::span<const int32_t> tokens, std::span<const int32_t> starts) {
  const at::Device device = weights.device();
  model::MicroBatch batch;
  batch.tokens_T = ops::from_int32(tokens, device);
  batch.labels_T = batch.tokens_T;
  batch.counted_N = ops::from_int64({}, device);  // no loss is needed
  batch.document_starts_N = ops::from_int32(starts, device);
  transformer.loss(weights, batch);
}

RowDecoding::RowDecoding(LoadedModel& model, int64_t rows, int64_t capacity)
    : model_(model),
      rows_(model.shape, model.plan, *model.weights, model.config.training.seq_len,
            capacity > 0 ? capacity : model.config.training.seq_len, model.dtype, model.weights->device(), rows) {}

std::vector<std::vector<double>> RowDecoding::logits(std::span<const int64_t> rows) {
  const at::Tensor logits_NV = rows_.logits(rows);
  const int64_t V = std::min(logits_NV.size(1), model_.tokenizer->vocab_size());
  const std::vector<double> all = ops::to_doubles(logits_NV.narrow(1, 0, V));  // one copy from a GPU
  check_numbers(all, model_);
  std::vector<std::vector<double>> result;
  for (auto begin = all.begin(); begin != all.end(); begin += V) result.emplace_back(begin, begin + V);
  return result;
}

}  // namespace hearth::infer
