// SPDX-License-Identifier: Apache-2.0
// The loss with a sliding window: `hearth eval --window N --stride K`.
//
// Windows of N tokens begin every K tokens of the set. Each window scores the tokens that earlier windows have not
// reached. Their context is at least N - K tokens, except in the first window. So every token after the first is scored
// once. A smaller K gives more context, and costs N / K times as much as K = N. With K = N windows do not overlap, and
// the first token of each is not scored. Source: Transformers' page "Perplexity of fixed-length models". Where windows
// overlap, that page weights each window's mean with one token fewer than the window scores. Here every token has the
// same weight.
#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <vector>

#include "data/batch/label_rule.h"
#include "data/shard/dataset.h"
#include "infer/loaded_model.h"
#include "train/validate.h"

namespace hearth::infer {

struct StridedWindows {
  int64_t window = 0, stride = 0;  // 2 <= window, 1 <= stride <= window
};

// A window of a split, and the tokens that it scores, as positions in the split: [scored, end).
struct WindowPart {
  int64_t begin, scored, end;
  bool operator==(const WindowPart&) const = default;
};
std::vector<WindowPart> windows_of(int64_t tokens, const StridedWindows& rule);

// `most_rows`: windows that are computed at a time, at most. `progress` is called with numbers of batches. The model's
// shape may differ from the run's (data with weights). Throws user_error if no token is scored.
train::ValidationResult slide(LoadedModel& model, const plan::ModelShape& shape, const data::Split& split,
                              const StridedWindows& rule, const data::LabelRule& labels, int64_t most_rows,
                              std::span<const int64_t> token_units,
                              const std::function<void(int64_t done, int64_t all)>& progress = {});

}  // namespace hearth::infer
