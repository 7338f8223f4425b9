// SPDX-License-Identifier: Apache-2.0
// A mapped shard, and the range of another file with its tokens, if it refers to one. Opening checks header and tables;
// the data are checked block by block on first use, in either file.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/file.h"
#include "data/shard/shard_format.h"

namespace hearth::data {

struct Column {
  std::string name;
  ElementType type = ElementType::kU8;
  ColumnAxis axis = ColumnAxis::kToken;
  std::vector<uint64_t> row_shape;  // empty: one element a row
  uint64_t num_rows = 0, data_offset = 0, data_bytes = 0;
  Storage storage = Storage::kHere;
};

class ShardReader {
 public:
  // Throws user_error for a file that is no shard or has another version. Throws damaged() for a file that is cut
  // short, has a wrong checksum in header or tables, or has tables that point outside. Throws damaged(), too, if
  // another file has the tokens and is missing or has another size.
  explicit ShardReader(const Path& path);

  const Path& path() const { return path_; }
  const ShardHeader& header() const { return header_; }
  const std::vector<Column>& columns() const { return columns_; }
  const Column* find_column(std::string_view name) const;  // null: there is no such column

  // The column's bytes, unchecked. Call check_range before using them.
  std::span<const std::byte> column_bytes(const Column& column) const;

  // Size of the data in another file; 0: there are no such data.
  uint64_t outside_bytes() const { return outside_.bytes().size(); }

  // Checks the blocks with bytes [begin, end) of the column, each once in the reader's life. Throws damaged() with
  // shard, block and column. Thread-safe. A first use costs one block at about 10 GB/s.
  void check_range(const Column& column, uint64_t begin, uint64_t end) const;

  // One line per damaged block; empty: the shard is whole. Reads everything.
  std::vector<std::string> find_damage() const;

 private:
  // The shard's own blocks come first, then those outside.
  struct Block {
    uint64_t begin, end;  // in its file
    std::span<const std::byte> bytes, checksum;
  };
  Block block_at(uint64_t block) const;
  bool block_is_good(uint64_t block) const;
  std::string describe_block(uint64_t block) const;
  void read_tables();
  void open_outside(const Column& column);
  std::span<const std::byte> whole_column(std::string_view name, ElementType type, uint64_t rows) const;

  Path path_;
  MappedFile file_;
  ShardHeader header_{};
  std::vector<Column> columns_;
  std::span<const std::byte> checksums_;
  Path outside_path_;
  MappedFile outside_;
  uint64_t outside_offset_ = 0;  // of the mapped range in that file
  std::span<const std::byte> outside_checksums_;
  std::unique_ptr<std::atomic<uint8_t>[]> block_checked_;
};

}  // namespace hearth::data
