// SPDX-License-Identifier: Apache-2.0
// Writes a shard, one column after another, in memory of one block. The file appears under its name when it is
// complete.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/file.h"
#include "base/hash.h"
#include "data/shard/shard_format.h"

namespace hearth::data {

class ShardWriter {
 public:
  // Writes to PATH.tmp. `identity`: 32 hexadecimal digits.
  ShardWriter(const Path& path, std::string_view identity, uint64_t block_bytes = kDefaultBlockBytes);
  // Removes PATH.tmp unless finish() was reached.
  ~ShardWriter();
  ShardWriter(const ShardWriter&) = delete;
  ShardWriter& operator=(const ShardWriter&) = delete;

  // Every row has the same shape; an empty shape means one element per row. Names have at most 31 characters.
  void begin_column(std::string_view name, ElementType type, ColumnAxis axis, std::vector<uint64_t> row_shape = {});
  void append(std::span<const std::byte> elements);  // little-endian, to the column begun last
  template <typename T>
  void append(const std::vector<T>& elements) {
    append(std::as_bytes(std::span(elements)));
  }

  // A whole column of one element per row.
  template <typename T>
  void add_column(std::string_view name, ColumnAxis axis, const std::vector<T>& elements) {
    begin_column(name, element_type_of<T>, axis);
    append(elements);
  }

  // A column whose data stay in another file: `elements` are the bytes from `offset` on in the file `path` of
  // `file_bytes` bytes. Only their checksums are written. Call it once, after all other columns.
  void add_outside_column(std::string_view name, ElementType type, ColumnAxis axis, const Path& path,
                          uint64_t file_bytes, uint64_t offset, std::span<const std::byte> elements);

  // Writes tables and header, fsyncs, renames to PATH. Returns the header as it was written.
  ShardHeader finish();

 private:
  ColumnEntry& add_record(std::string_view name, ElementType type, ColumnAxis axis);
  void end_column();
  void put(std::span<const std::byte> bytes);
  void flush_block();

  Path path_, temporary_;
  File file_;
  ShardHeader header_{};
  std::vector<ColumnEntry> columns_;
  std::vector<std::byte> block_;  // not yet written
  std::vector<uint64_t> checksums_;
  uint64_t offset_ = sizeof(ShardHeader);  // of the next byte in the file
  bool finished_ = false;
};

}  // namespace hearth::data
