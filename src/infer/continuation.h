// Tokens so far, and the logits of what follows: what generating text and arrays have in common.
//
// Rotary positions past the trained window were never seen. When the window is full, its newer half stays as context,
// at positions from 0, and the rest is forgotten.
#pragma once

#include <cstdint>
#include <vector>

#include "infer/loaded_model.h"
#include "model/decoder.h"

namespace hearth::infer {

class Continuation {
 public:
  // `context` is not empty. Borrows the model.
  Continuation(LoadedModel& model, std::vector<int32_t> context);

  // The logits of the token after the last one, for the tokenizer's own ids (a vocabulary may be padded). Call it once
  // after each append().
  std::vector<double> logits();
  void append(int32_t token);

 private:
  void forget_older_half();

  const int64_t window_, vocab_size_;
  std::vector<int32_t> context_;
  std::vector<int32_t> fresh_;  // the end of it, which the decoder has not seen
  model::Decoder decoder_;
};

}  // namespace hearth::infer
