// SPDX-License-Identifier: Apache-2.0
#include "convert/neox/rank.h"

#include <algorithm>

namespace hearth::convert {

NeoxLayers::NeoxLayers(const plan::ModelShape& shape, bool slots, bool is_llama)
    : table_(rank_table("neox").with({slots ? "slots" : "split", is_llama ? "llama" : "swiglu"})),
      layers_(shape.L()),
      tied_(shape.tied) {}

std::vector<int64_t> NeoxLayers::numbers(int64_t first, int64_t last) const {
  const int64_t norm = layers_ + 3, output = layers_ + 4;
  const auto has = [&](int64_t number) { return first <= number && number < last; };
  std::vector<int64_t> numbers;
  if (has(0) || (tied_ && has(output))) numbers.push_back(0);
  for (int64_t number = std::max<int64_t>(first, 2); number < std::min(last, layers_ + 2); ++number)
    numbers.push_back(number);
  if (has(norm)) numbers.push_back(norm);
  if (!tied_ && has(output)) numbers.push_back(output);
  return numbers;
}

std::vector<RankRow> NeoxLayers::rows(int64_t number) const {
  if (number == 0) return table_.before;
  if (number > layers_ + 2) return {table_.behind.at(static_cast<size_t>(number - layers_ - 3))};
  std::vector<RankRow> rows;
  for (const RankRow& row : table_.block) rows.push_back(row.of_layer(number - 2));
  return rows;
}

std::vector<RankTensor> NeoxRank::layer(int64_t number) const {
  std::vector<RankTensor> tensors;
  for (const RankRow& row : rows(number)) tensors.push_back(cut(tensors_, row, layout_, rank_));
  return tensors;
}

}  // namespace hearth::convert
