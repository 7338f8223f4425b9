// SPDX-License-Identifier: Apache-2.0
// The column of a shard with its tokens' weights as labels. A shard in which all weights are 1 has no such column.
#pragma once

#include <cstdint>
#include <optional>
#include <span>

#include "data/formats/label_weights.h"
#include "data/shard/shard_reader.h"
#include "data/shard/shard_writer.h"

namespace hearth::data {

// Writes the weights of all tokens of the shard: u8 if each is 0 or 1, otherwise f32; nothing if all are 1.
void write_weights(ShardWriter& writer, const WeightRuns& weights);

// The column's totals; nothing if the shard has no such column. Reads all of it. Throws damaged() as WeightColumn does.
std::optional<WeightTotals> find_weights(const ShardReader& shard);

// Borrows the reader.
class WeightColumn {
 public:
  // Throws damaged() if the shard has no such column, or one of another kind.
  explicit WeightColumn(const ShardReader& shard);
  // Reads the weights of tokens [first, first + out.size()). Throws damaged() for a damaged block or an invalid weight.
  void read(int64_t first, std::span<float> out) const;

 private:
  const ShardReader& shard_;
  const Column* column_;
};

}  // namespace hearth::data
