// A shard, mapped. Opening checks header and tables; the data is checked block by block at the first touch.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/file.h"
#include "data/shard_format.h"

namespace hearth::data {

struct Column {
  std::string name;
  ElementType type = ElementType::kU8;
  Axis axis = Axis::kToken;
  std::vector<uint64_t> row_shape;  // empty: one element a row
  uint64_t num_rows = 0, data_offset = 0, data_bytes = 0;
};

class ShardReader {
 public:
  // Throws damaged() for a file that is cut short, has a wrong checksum in header or tables, or tables that point
  // outside; user_error for something that is no shard or has another version.
  explicit ShardReader(const Path& path);

  const Path& path() const { return path_; }
  const ShardHeader& header() const { return header_; }
  const std::vector<Column>& columns() const { return columns_; }
  const Column* find_column(std::string_view name) const;  // null: there is none

  // The column's bytes, unchecked. Call check_range before believing them.
  std::span<const std::byte> column_bytes(const Column& column) const;

  // Checks the blocks that hold bytes [begin, end) of the column, each once in the reader's life; throws damaged()
  // naming shard, block and column. Safe from several threads. Cost of a first touch: one block at about 10 GB/s.
  void check_range(const Column& column, uint64_t begin, uint64_t end) const;

  // One line per damaged block; empty: the shard is whole. Reads everything.
  std::vector<std::string> find_damage() const;

 private:
  bool block_is_good(uint64_t block) const;
  std::string describe_block(uint64_t block) const;
  void read_tables();

  Path path_;
  MappedFile file_;
  ShardHeader header_{};
  std::vector<Column> columns_;
  std::span<const std::byte> checksums_;
  std::unique_ptr<std::atomic<uint8_t>[]> block_checked_;
};

}  // namespace hearth::data
