// Continues a sequence of tokens: context and next-token logits, for text and for arrays.
//
// The model never saw rotary positions past its trained window. When the context fills the window, its newer half is
// kept, at positions from 0, and the rest is dropped.
#pragma once

#include <cstdint>
#include <vector>

#include "infer/loaded_model.h"
#include "model/decoder.h"

namespace hearth::infer {

class Decoding {
 public:
  // `context` is not empty. Borrows the model.
  Decoding(LoadedModel& model, std::vector<int32_t> context);

  // The logits of the next token, for the tokenizer's own ids (a model's vocabulary may be padded). Call it once after
  // each append().
  std::vector<double> logits();
  void append(int32_t token);

 private:
  void forget_older_half();

  const int64_t window_, vocab_size_;
  std::vector<int32_t> context_;
  std::vector<int32_t> fresh_;  // the end of context_, which the decoder has not seen
  model::Decoder decoder_;
};

}  // namespace hearth::infer
