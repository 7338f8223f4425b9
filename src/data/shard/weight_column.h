// The column of a shard that says what its tokens weigh as labels. A shard in which each weighs 1 has none.
#pragma once

#include <cstdint>
#include <optional>
#include <span>

#include "data/formats/label_weights.h"
#include "data/shard/shard_reader.h"
#include "data/shard/shard_writer.h"

namespace hearth::data {

// Writes the weights of all tokens of the shard: u8 where each is 0 or 1, else f32; nothing where all are 1.
void write_weights(ShardWriter& writer, const WeightRuns& weights);

// What the column comes to; nothing where the shard has none. Reads all of it. Throws damaged() as WeightColumn does.
std::optional<WeightTotals> find_weights(const ShardReader& shard);

// Borrows the reader.
class WeightColumn {
 public:
  // Throws damaged() where the shard has no such column, or one of another kind.
  explicit WeightColumn(const ShardReader& shard);
  // Reads the weights of tokens [first, first + out.size()). Throws damaged() for a block that is, and for what is no
  // weight.
  void read(int64_t first, std::span<float> out) const;

 private:
  const ShardReader& shard_;
  const Column* column_;
};

}  // namespace hearth::data
