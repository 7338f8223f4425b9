// SPDX-License-Identifier: Apache-2.0
// A shard with the columns that a split needs, looked up and checked once. A checksum does not prove that our writer
// wrote the file: every number is checked against the others before it is used.
#pragma once

#include <cstdint>
#include <cstring>
#include <optional>
#include <string>
#include <vector>

#include "data/shard/manifest.h"
#include "data/shard/shard_reader.h"
#include "data/shard/weight_column.h"
#include "recordings/array_stream.h"

namespace hearth::data {

// Element `row` of a column of T.
template <typename T>
T element(const ShardReader& shard, const Column& column, int64_t row) {
  const auto begin = static_cast<uint64_t>(row) * sizeof(T);
  shard.check_range(column, begin, begin + sizeof(T));
  T value;
  std::memcpy(&value, shard.column_bytes(column).data() + begin, sizeof(T));
  return value;
}

class OpenShard {
 public:
  // `is_arrays`: its documents are arrays. Throws damaged() if the file is not the entry's shard, or if a column is
  // missing.
  OpenShard(const Path& path, const ShardEntry& entry, bool is_arrays);

  const ShardReader& reader() const { return reader_; }
  int64_t end_of(int64_t document) const;  // the document's end, in tokens
  // Appends first_token + end_of of `count` documents from `document` on.
  void append_ends(int64_t document, int64_t count, int64_t first_token, std::vector<int64_t>& ends) const;
  int64_t document_at(int64_t token) const;  // the first document that ends after `token`
  [[noreturn]] void fail_ends() const;

  // Stored tokens [first, first + out.size()) of the shard.
  void read(int64_t first, std::span<int32_t> out) const;
  // Their weights as labels.
  void read_weights(int64_t first, std::span<float> out) const;

  // The shape of an array. The position of its counts is checked against the shape, and the shape against the tokens.
  recordings::ArrayShape shape_of(int64_t document) const;
  std::string label_of(int64_t document, size_t label) const;
  void read_array(const recordings::ArrayStream& stream, int64_t document, int64_t crop, int64_t first,
                  std::span<int32_t> out) const;

 private:
  [[noreturn]] void fail(std::string why) const;

  ShardReader reader_;
  int64_t num_tokens_;  // as read
  const Column* tokens_;
  const Column* cell_ends_;  // in elements of tokens_
  const Column* ends_;       // in tokens as read; for text the same column
  const Column* shapes_ = nullptr;
  std::optional<WeightColumn> weights_;  // nothing: each token weighs 1
};

}  // namespace hearth::data
