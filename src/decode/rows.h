// SPDX-License-Identifier: Apache-2.0
// Rows of contexts that a model continues: `hearth generate`, the texts of a training, and fills of masks.
//
// The model never saw rotary positions past its trained window. When a context fills the window, its newer half is
// kept, at positions from 0, and the rest is dropped.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <span>
#include <vector>

#include "decode/decoder.h"

namespace hearth::decode {

// How many of `visible` tokens the model sees for the next token: all, or the newer half of the window if they do not
// fit. Cached keys contain their positions, so a window that slid by one token would cost a pass over the whole window
// for each token. Keeping half of it costs such a pass once in window / 2 tokens.
inline int64_t shown(int64_t visible, int64_t window) { return visible > window ? (window + 1) / 2 : visible; }

// Rows may begin and end at any time. A row's results do not depend on other rows, up to the rounding of matrix
// products.
class ContextRows {
 public:
  // `window`: the model's. `capacity`: the longest part of a context that a row will have. Borrows plan and weights.
  ContextRows(const plan::ModelShape& shape, const plan::ParameterPlan& plan, model::Weights& weights, int64_t window,
              int64_t capacity, DType dtype, at::Device device, int64_t rows);

  // Restarts a row with this context, which is not empty.
  void begin(int64_t row, std::vector<int32_t> context);
  void append(int64_t row, int32_t token);
  // The logits of the next token of each of these rows, [N, V], valid until the next call. Call it once for a row after
  // each begin() or append().
  at::Tensor logits(std::span<const int64_t> rows);

 private:
  struct Context {
    std::vector<int32_t> tokens;
    std::vector<int32_t> fresh;  // the context's end, which the decoder has not seen yet
  };
  Context& context(int64_t row) { return contexts_[static_cast<size_t>(row)]; }

  const int64_t window_;
  const DType dtype_;
  const at::Device device_;
  std::vector<Context> contexts_;
  Decoder decoder_;
};

}  // namespace hearth::decode
