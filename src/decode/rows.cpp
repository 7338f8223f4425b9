// SPDX-License-Identifier: Apache-2.0
#include "decode/rows.h"

#include <algorithm>

#include "ops/tensor.h"

namespace hearth::decode {

ContextRows::ContextRows(const plan::ModelShape& shape, const plan::ParameterPlan& plan, model::Weights& weights,
                         int64_t window, int64_t capacity, DType dtype, at::Device device, int64_t rows)
    : window_(window),
      dtype_(dtype),
      device_(device),
      contexts_(static_cast<size_t>(rows)),
      decoder_(shape, plan, weights, std::min(capacity, window), dtype, device, rows) {}

void ContextRows::begin(int64_t row, std::vector<int32_t> tokens) {
  decoder_.clear(row);
  context(row) = {tokens, tokens};
}

void ContextRows::append(int64_t row, int32_t token) {
  context(row).tokens.push_back(token);
  context(row).fresh.push_back(token);
}

at::Tensor ContextRows::logits(std::span<const int64_t> rows) {
  std::vector<int64_t> together, places;  // rows with one new token, and their places in the result
  std::vector<int32_t> tokens;
  at::Tensor logits_NV;  // undefined while no row is computed alone
  for (int64_t i = 0; i < std::ssize(rows); ++i) {
    const int64_t row = rows[static_cast<size_t>(i)];
    auto& [all, fresh] = context(row);
    const int64_t visible = decoder_.size(row) + std::ssize(fresh), count = shown(visible, window_);
    if (count < visible || decoder_.must_begin_again(std::ssize(fresh), row)) {
      decoder_.clear(row);
      fresh.assign(all.end() - count, all.end());
    }
    if (decoder_.size(row) > 0 && fresh.size() == 1) {
      together.push_back(row);
      tokens.push_back(fresh.front());
      places.push_back(i);
    } else {
      const at::Tensor logits_V = decoder_.append(fresh, row);
      if (!logits_NV.defined()) logits_NV = ops::empty({std::ssize(rows), logits_V.size(0)}, dtype_, device_);
      ops::copy_(logits_NV.select(0, i), logits_V);
    }
    fresh.clear();
  }
  if (together.empty()) return logits_NV;
  const at::Tensor each_NV = decoder_.append_to_each(together, tokens);
  if (!logits_NV.defined()) return each_NV;
  for (int64_t n = 0; n < std::ssize(places); ++n)
    ops::copy_(logits_NV.select(0, places[static_cast<size_t>(n)]), each_NV.select(0, n));
  return logits_NV;
}

}  // namespace hearth::decode
