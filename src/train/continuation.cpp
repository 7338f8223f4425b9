#include "train/continuation.h"

#include <algorithm>

#include "ops/tensor.h"

namespace hearth::train {

Continuation::Continuation(LoadedModel& model, std::vector<int32_t> context)
    : window_(model.config.training.seq_len),
      vocab_size_(model.tokenizer->vocab_size()),
      context_(std::move(context)),
      fresh_(context_),
      decoder_(model.shape, model.plan, *model.weights, window_, model.dtype) {
  if (static_cast<int64_t>(fresh_.size()) > window_) forget_older_half();
}

void Continuation::forget_older_half() {
  decoder_.clear();
  fresh_.assign(context_.end() - (window_ + 1) / 2, context_.end());
}

std::vector<double> Continuation::logits() {
  if (decoder_.size() + static_cast<int64_t>(fresh_.size()) > window_) forget_older_half();
  const at::Tensor logits_V = decoder_.append(fresh_);
  fresh_.clear();
  std::vector<double> values(static_cast<size_t>(std::min(logits_V.numel(), vocab_size_)));
  const bool is_double = ops::dtype_of(logits_V) == DType::kFloat64;
  for (size_t i = 0; i < values.size(); ++i)
    values[i] = is_double ? logits_V.data_ptr<double>()[i] : static_cast<double>(logits_V.data_ptr<float>()[i]);
  return values;
}

void Continuation::append(int32_t token) {
  context_.push_back(token);
  fresh_.push_back(token);
}

}  // namespace hearth::train
