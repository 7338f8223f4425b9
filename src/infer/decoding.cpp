#include "infer/decoding.h"

#include <algorithm>

#include "ops/tensor.h"

namespace hearth::infer {

Decoding::Decoding(LoadedModel& model, std::vector<int32_t> context)
    : window_(model.config.training.seq_len),
      vocab_size_(model.tokenizer->vocab_size()),
      context_(std::move(context)),
      fresh_(context_),
      decoder_(model.shape, model.plan, *model.weights, window_, model.dtype, model.weights->device()) {
  if (static_cast<int64_t>(fresh_.size()) > window_) forget_older_half();
}

void Decoding::forget_older_half() {
  decoder_.clear();
  fresh_.assign(context_.end() - (window_ + 1) / 2, context_.end());
}

std::vector<double> Decoding::logits() {
  if (decoder_.size() + static_cast<int64_t>(fresh_.size()) > window_) forget_older_half();
  const at::Tensor logits_V = decoder_.append(fresh_);
  fresh_.clear();
  return ops::to_doubles(logits_V.narrow(0, 0, std::min(logits_V.numel(), vocab_size_)));
}

void Decoding::append(int32_t token) {
  context_.push_back(token);
  fresh_.push_back(token);
}

}  // namespace hearth::infer
