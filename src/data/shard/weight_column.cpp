// SPDX-License-Identifier: Apache-2.0
#include "data/shard/weight_column.h"

#include <algorithm>
#include <cstring>
#include <vector>

#include "base/error.h"

namespace hearth::data {
namespace {

constexpr int64_t kChunkTokens = 1 << 16;

// Calls append(vector of T) with the weights of all tokens, in pieces.
template <typename T, typename Append>
void for_each_chunk(const WeightRuns& weights, const Append& append) {
  std::vector<T> chunk;
  int64_t begin = 0;
  for (const WeightRuns::Run& run : weights.runs()) {
    for (int64_t left = run.end - begin; left > 0;) {
      const int64_t count = std::min(left, kChunkTokens - std::ssize(chunk));
      chunk.insert(chunk.end(), static_cast<size_t>(count), static_cast<T>(run.weight));
      left -= count;
      if (std::ssize(chunk) < kChunkTokens) continue;
      append(chunk);
      chunk.clear();
    }
    begin = run.end;
  }
  append(chunk);
}

WeightTotals totals_of(const WeightRuns& weights) {
  WeightTotals totals;
  int64_t begin = 0;
  for (const WeightRuns::Run& run : weights.runs()) {
    totals.add(run.end - begin, run.weight);
    begin = run.end;
  }
  return totals;
}

}  // namespace

void write_weights(ShardWriter& writer, const WeightRuns& weights) {
  if (weights.all_one()) return;
  const bool is_mask = totals_of(weights).is_mask;
  writer.begin_column(kWeightsColumn, is_mask ? ElementType::kU8 : ElementType::kF32, ColumnAxis::kToken);
  const auto append = [&](const auto& chunk) { writer.append(chunk); };
  if (is_mask)
    for_each_chunk<uint8_t>(weights, append);
  else
    for_each_chunk<float>(weights, append);
}

std::optional<WeightTotals> find_weights(const ShardReader& shard) {
  if (shard.find_column(kWeightsColumn) == nullptr) return {};
  const WeightColumn column(shard);
  const auto tokens = static_cast<int64_t>(shard.header().num_tokens);
  WeightRuns runs;
  std::vector<float> chunk;
  for (int64_t first = 0; first < tokens; first += kChunkTokens) {
    chunk.resize(static_cast<size_t>(std::min(kChunkTokens, tokens - first)));
    column.read(first, chunk);
    for (const float weight : chunk) runs.append(1, weight);
  }
  return totals_of(runs);
}

WeightColumn::WeightColumn(const ShardReader& shard) : shard_(shard), column_(shard.find_column(kWeightsColumn)) {
  if (column_ == nullptr || column_->axis != ColumnAxis::kToken || !column_->row_shape.empty() ||
      (column_->type != ElementType::kU8 && column_->type != ElementType::kF32))
    throw bad_shard(shard_.path(), "it has no column \"weights\" of u8 or f32, one per token");
}

void WeightColumn::read(int64_t first, std::span<float> out) const {
  const bool is_mask = column_->type == ElementType::kU8;
  const uint64_t size = is_mask ? sizeof(uint8_t) : sizeof(float);
  const auto from = static_cast<uint64_t>(first) * size;
  shard_.check_range(*column_, from, from + out.size() * size);
  const std::byte* data = shard_.column_bytes(*column_).data() + from;
  for (size_t i = 0; i < out.size(); ++i) {
    if (is_mask)
      out[i] = static_cast<float>(data[i]);
    else
      std::memcpy(&out[i], data + i * size, size);
    if (is_mask && out[i] > 1)
      throw bad_shard(shard_.path(), fmt::format("the weight of token {} is {}, in a column of 0 and 1",
                                                 first + static_cast<int64_t>(i), out[i]));
    if (!is_weight(static_cast<double>(out[i])))
      throw bad_shard(shard_.path(), fmt::format("the weight of token {} is {}: weights are finite and not negative",
                                                 first + static_cast<int64_t>(i), out[i]));
  }
}

}  // namespace hearth::data
