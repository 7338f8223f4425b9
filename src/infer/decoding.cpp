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

RowDecoding::RowDecoding(LoadedModel& model, int64_t rows, int64_t capacity)
    : model_(model),
      window_(model.config.training.seq_len),
      vocab_size_(model.tokenizer->vocab_size()),
      contexts_(static_cast<size_t>(rows)),
      decoder_(model.shape, model.plan, *model.weights, capacity > 0 ? std::min(capacity, window_) : window_,
               model.dtype, model.weights->device(), rows) {}

void RowDecoding::begin(int64_t row, std::vector<int32_t> tokens) {
  decoder_.clear(row);
  context(row) = {tokens, tokens};
}

void RowDecoding::append(int64_t row, int32_t token) {
  context(row).tokens.push_back(token);
  context(row).fresh.push_back(token);
}

// Cached keys carry their positions. A window that slid by one token would cost a pass over it for each token; half of
// it costs one such pass in window / 2 tokens.
void RowDecoding::forget_older_half(int64_t row) {
  decoder_.clear(row);
  const std::vector<int32_t>& tokens = context(row).tokens;
  context(row).fresh.assign(tokens.end() - (window_ + 1) / 2, tokens.end());
}

std::vector<std::vector<double>> RowDecoding::logits(std::span<const int64_t> rows) {
  std::vector<std::vector<double>> result(rows.size());
  std::vector<int64_t> together;  // rows with one new token
  std::vector<int32_t> tokens;
  std::vector<size_t> places;
  for (size_t i = 0; i < rows.size(); ++i) {
    const int64_t row = rows[i];
    std::vector<int32_t>& fresh = context(row).fresh;
    if (decoder_.size(row) + std::ssize(fresh) > window_) forget_older_half(row);
    if (decoder_.size(row) > 0 && fresh.size() == 1) {
      together.push_back(row);
      tokens.push_back(fresh.front());
      places.push_back(i);
    } else {
      result[i] = own_ids(decoder_.append(fresh, row));
    }
    fresh.clear();
  }
  if (together.empty()) return result;
  const at::Tensor logits_NV = decoder_.append_to_each(together, tokens);
  const int64_t V = std::min(logits_NV.size(1), vocab_size_);
  const std::vector<double> all = ops::to_doubles(logits_NV.narrow(1, 0, V));  // one copy from a GPU
  check_numbers(all, model_);
  for (size_t n = 0; n < places.size(); ++n) {
    const auto begin = all.begin() + static_cast<int64_t>(n) * V;
    result[places[n]].assign(begin, begin + V);
  }
  return result;
}

std::vector<double> RowDecoding::own_ids(const at::Tensor& logits_V) const {
  std::vector<double> logits = ops::to_doubles(logits_V.narrow(0, 0, std::min(logits_V.numel(), vocab_size_)));
  check_numbers(logits, model_);
  return logits;
}

}  // namespace hearth::infer
