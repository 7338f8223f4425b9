// SPDX-License-Identifier: Apache-2.0
// Logits of whole sequences, and of the next token of contexts (decode/rows.h), for text and for arrays. A next token's
// logits are doubles, have only the tokenizer's own ids, and are checked for NaN.
#pragma once

#include <cstdint>
#include <span>
#include <utility>
#include <vector>

#include "decode/rows.h"
#include "infer/loaded_model.h"
#include "model/transformer.h"

namespace hearth::infer {

// Throws damaged if a logit is NaN.
void check_numbers(std::span<const double> logits, const LoadedModel& model);

// Computes several sequences, which stand one after the other and begin at `starts`. Call Transformer::logits() after
// it. `tokens`: as many as the transformer takes.
void compute_sequences(model::Transformer& transformer, parallel::ShardedWeights& weights,
                       std::span<const int32_t> tokens, std::span<const int32_t> starts);

class RowDecoding {
 public:
  // `capacity`: the longest part of a context that the model sees; 0: its window. Borrows the model.
  RowDecoding(LoadedModel& model, int64_t rows, int64_t capacity = 0);

  void begin(int64_t row, std::vector<int32_t> context) { rows_.begin(row, std::move(context)); }
  // The logits of the next token of each of these rows, for the tokenizer's own ids (a model's vocabulary may be
  // padded). Call it once for a row after each begin() or append(). Throws the error of check_numbers.
  std::vector<std::vector<double>> logits(std::span<const int64_t> rows);
  void append(int64_t row, int32_t token) { rows_.append(row, token); }

 private:
  const LoadedModel& model_;
  decode::ContextRows rows_;
};

// The same for a single context.
class Decoding {
 public:
  Decoding(LoadedModel& model, std::vector<int32_t> context) : rows_(model, 1) { rows_.begin(0, std::move(context)); }
  std::vector<double> logits() {
    constexpr int64_t kRow = 0;
    return std::move(rows_.logits(std::span(&kRow, 1)).front());
  }
  void append(int32_t token) { rows_.append(0, token); }

 private:
  RowDecoding rows_;
};

}  // namespace hearth::infer
