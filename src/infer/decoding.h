// Continues sequences of tokens: contexts and next-token logits, for text and for arrays.
//
// The model never saw rotary positions past its trained window. When a context fills the window, its newer half is
// kept, at positions from 0, and the rest is dropped.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "infer/loaded_model.h"
#include "model/decoder.h"

namespace hearth::infer {

// Throws damaged if a logit is NaN.
void check_numbers(std::span<const double> logits, const LoadedModel& model);

// Rows of contexts, which may begin and end at any time. What a row computes does not depend on other rows, up to the
// rounding of matrix products.
class RowDecoding {
 public:
  // `capacity`: the longest part of a context that the model sees; 0: its window. Borrows the model.
  RowDecoding(LoadedModel& model, int64_t rows, int64_t capacity = 0);

  // A row begins anew with this context, which is not empty.
  void begin(int64_t row, std::vector<int32_t> context);
  // The logits of the next token of each of these rows, for the tokenizer's own ids (a model's vocabulary may be
  // padded). Call it once for a row after each begin() or append(). Throws the error of check_numbers.
  std::vector<std::vector<double>> logits(std::span<const int64_t> rows);
  void append(int64_t row, int32_t token);

 private:
  struct Context {
    std::vector<int32_t> tokens;
    std::vector<int32_t> fresh;  // their end, which the decoder has not seen
  };
  Context& context(int64_t row) { return contexts_[static_cast<size_t>(row)]; }
  void forget_older_half(int64_t row);
  std::vector<double> own_ids(const at::Tensor& logits_V) const;

  const LoadedModel& model_;
  const int64_t window_, vocab_size_;
  std::vector<Context> contexts_;
  model::Decoder decoder_;
};

// One context.
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
