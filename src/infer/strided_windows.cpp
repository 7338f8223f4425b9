// SPDX-License-Identifier: Apache-2.0
#include "infer/strided_windows.h"

#include <algorithm>

#include "base/error.h"
#include "base/quantity.h"
#include "model/transformer.h"
#include "train/step.h"

namespace hearth::infer {
namespace {

// Each row's tokens are the window's but the last, its labels the tokens after them.
data::Batch batch_of(const data::Split& split, std::span<const WindowPart> parts, const data::LabelRule& rule,
                     int64_t B, int64_t S) {
  data::Batch batch;
  batch.B = B;
  batch.S = S;
  const auto size = static_cast<size_t>(B * S);
  batch.tokens.assign(size, 0);
  batch.labels.assign(size, data::kIgnore);
  batch.row_tokens.assign(static_cast<size_t>(B), 0);
  if (split.weights()) batch.weights.assign(size, 0);
  for (int64_t row = 0; row < B; ++row) {
    const int64_t at = row * S;
    batch.document_starts.push_back(static_cast<int32_t>(at));
    if (row >= std::ssize(parts)) continue;
    const auto& [begin, scored, end] = parts[static_cast<size_t>(row)];
    const int64_t count = end - begin - 1;
    batch.row_tokens[static_cast<size_t>(row)] = static_cast<int32_t>(count);
    const auto row_of = [&](auto& all) {
      return std::span(all).subspan(static_cast<size_t>(at), static_cast<size_t>(count));
    };
    const std::span<int32_t> tokens = row_of(batch.tokens), labels = row_of(batch.labels);
    split.read(begin, tokens);
    split.read(begin + 1, labels);
    std::span<float> weights;
    if (split.weights()) split.read_weights(begin + 1, weights = row_of(batch.weights));
    rule.apply(/*seed=*/0, /*g=*/0, tokens, labels, weights);
    std::fill(labels.begin(), labels.begin() + (scored - begin - 1), data::kIgnore);
    std::vector<int32_t> starts;
    split.document_starts(begin, count, starts);
    for (const int32_t start : starts)
      if (start > 0) batch.document_starts.push_back(static_cast<int32_t>(at) + start);
  }
  return batch;
}

}  // namespace

std::vector<WindowPart> windows_of(int64_t tokens, const StridedWindows& rule) {
  std::vector<WindowPart> parts;
  int64_t reached = 0;
  for (int64_t begin = 0; reached < tokens; begin += rule.stride) {
    const int64_t end = std::min(begin + rule.window, tokens);
    if (const int64_t scored = std::max(reached, begin + 1); scored < end) parts.push_back({begin, scored, end});
    reached = end;
  }
  return parts;
}

train::ValidationResult slide(LoadedModel& model, const plan::ModelShape& shape, const data::Split& split,
                              const StridedWindows& rule, const data::LabelRule& labels, int64_t most_rows,
                              std::span<const int64_t> token_units,
                              const std::function<void(int64_t done, int64_t all)>& progress) {
  const std::vector<WindowPart> parts = windows_of(split.tokens(), rule);
  const int64_t batch_size = std::clamp<int64_t>(std::ssize(parts), 1, most_rows);
  const at::Device device = model.weights->device();
  const int64_t S = rule.window - 1;
  model::Transformer transformer(shape, model.plan, batch_size, S, model.compute_options());
  train::ValidationResult result;
  for (size_t first = 0; first < parts.size(); first += static_cast<size_t>(batch_size)) {
    const size_t rows = std::min(parts.size() - first, static_cast<size_t>(batch_size));
    const data::Batch batch = batch_of(split, std::span(parts).subspan(first, rows), labels, batch_size, S);
    result.loss_sum += transformer.loss(*model.weights, train::to_tensors(batch, device, {})).loss;
    result.counted_tokens += train::counted_weight(batch);
    result.counted_units += train::counted_units(batch, token_units);
    if (progress) progress(static_cast<int64_t>(first) / batch_size + 1, div_ceil(std::ssize(parts), batch_size));
  }
  if (result.counted_tokens <= 0)
    throw user_error(fmt::format("no token of split \"{}\" is scored", split.name()),
                     fmt::format("it has {} tokens", split.tokens()), "evaluate other documents");
  return result;
}

}  // namespace hearth::infer
