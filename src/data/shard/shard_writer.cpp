// SPDX-License-Identifier: Apache-2.0
#include "data/shard/shard_writer.h"

#include <algorithm>
#include <bit>
#include <cstring>

#include "base/error.h"
#include "base/quantity.h"

namespace hearth::data {

static_assert(std::endian::native == std::endian::little, "shards are little-endian and written from memory unchanged");

namespace {

template <typename T>
std::span<const std::byte> bytes_of(const T& value) {
  return std::as_bytes(std::span(&value, 1));
}

Path temporary_name(const Path& path) {
  Path temporary = path;
  temporary += ".tmp";
  return temporary;
}

}  // namespace

ShardWriter::ShardWriter(const Path& path, std::string_view identity, uint64_t block_bytes)
    : path_(path), temporary_(temporary_name(path)), file_(File::create(temporary_)) {
  HEARTH_CHECK(std::has_single_bit(block_bytes) && identity.size() == 32);
  std::memcpy(header_.magic, kShardMagic, sizeof kShardMagic);
  header_.version = kShardVersion;
  header_.header_bytes = sizeof(ShardHeader);
  header_.block_bytes = block_bytes;
  for (size_t half = 0; half < 2; ++half) {
    const uint64_t word = from_hex64(identity.substr(16 * half, 16));
    for (size_t i = 0; i < 8; ++i) header_.identity[8 * half + i] = static_cast<uint8_t>(word >> (56 - 8 * i));
  }
  block_.reserve(block_bytes);
  file_.write(bytes_of(ShardHeader{}));  // zeros: an incomplete file has no magic
}

ShardWriter::~ShardWriter() {
  if (finished_) return;
  try {
    remove_file(temporary_);
  } catch (const Error&) {
    // The next build writes the same name; the first error is already being thrown.
  }
}

ColumnEntry& ShardWriter::add_record(std::string_view name, ElementType type, ColumnAxis axis) {
  ColumnEntry record{};
  HEARTH_CHECK(!name.empty() && name.size() < sizeof record.name);
  end_column();
  std::ranges::copy(name, record.name);
  record.element_type = static_cast<uint32_t>(type);
  record.axis = static_cast<uint32_t>(axis);
  return columns_.emplace_back(record);
}

void ShardWriter::begin_column(std::string_view name, ElementType type, ColumnAxis axis,
                               std::vector<uint64_t> row_shape) {
  HEARTH_CHECK(row_shape.size() <= 4);
  ColumnEntry& record = add_record(name, type, axis);
  static constexpr std::byte kZeros[kColumnAlignment] = {};
  put(std::span(kZeros).first((kColumnAlignment - offset_ % kColumnAlignment) % kColumnAlignment));
  record.row_rank = static_cast<uint32_t>(row_shape.size());
  std::ranges::copy(row_shape, record.row_shape);
  record.data_offset = offset_;
}

void ShardWriter::add_outside_column(std::string_view name, ElementType type, ColumnAxis axis, const Path& path,
                                     uint64_t file_bytes, uint64_t offset, std::span<const std::byte> elements) {
  HEARTH_CHECK(path.is_absolute() && header_.version == kShardVersion);
  header_.version = kOutsideVersion;
  ColumnEntry& record = add_record(name, type, axis);
  record.storage = static_cast<uint32_t>(Storage::kOutside);
  record.data_offset = offset;
  record.data_bytes = elements.size();
  begin_column(kOutsidePathColumn, ElementType::kU8, ColumnAxis::kShard);
  append(std::as_bytes(std::span(path.native())));
  add_column(kOutsideBytesColumn, ColumnAxis::kShard, std::vector<uint64_t>{file_bytes});
  std::vector<uint64_t> checksums;
  for (size_t begin = 0; begin < elements.size(); begin += header_.block_bytes)
    checksums.push_back(
        xxh3_64(elements.subspan(begin, std::min<size_t>(header_.block_bytes, elements.size() - begin))));
  add_column(kOutsideChecksumsColumn, ColumnAxis::kShard, checksums);
}

void ShardWriter::append(std::span<const std::byte> elements) {
  HEARTH_CHECK(!columns_.empty());
  columns_.back().data_bytes += elements.size();
  put(elements);
}

void ShardWriter::end_column() {
  if (columns_.empty()) return;
  ColumnEntry& column = columns_.back();
  uint64_t row_bytes = element_size(column.element_type);
  for (uint32_t i = 0; i < column.row_rank; ++i) row_bytes *= column.row_shape[i];
  HEARTH_CHECK(row_bytes > 0 && column.data_bytes % row_bytes == 0);
  column.num_rows = column.data_bytes / row_bytes;
  if (column.axis == static_cast<uint32_t>(ColumnAxis::kShard)) return;
  uint64_t& axis_rows =
      column.axis == static_cast<uint32_t>(ColumnAxis::kToken) ? header_.num_tokens : header_.num_documents;
  HEARTH_CHECK(axis_rows == 0 || axis_rows == column.num_rows, "column {}: {} rows instead of {}", column.name,
               column.num_rows, axis_rows);
  axis_rows = column.num_rows;
}

void ShardWriter::put(std::span<const std::byte> bytes) {
  offset_ += bytes.size();
  while (!bytes.empty()) {
    const size_t n = std::min(bytes.size(), static_cast<size_t>(header_.block_bytes) - block_.size());
    block_.insert(block_.end(), bytes.begin(), bytes.begin() + static_cast<std::ptrdiff_t>(n));
    bytes = bytes.subspan(n);
    if (block_.size() == header_.block_bytes) flush_block();
  }
}

void ShardWriter::flush_block() {
  if (block_.empty()) return;
  checksums_.push_back(xxh3_64(block_));
  file_.write(block_);
  block_.clear();
}

ShardHeader ShardWriter::finish() {
  end_column();
  put(std::vector<std::byte>((8 - offset_ % 8) % 8));  // the tables are read in place
  flush_block();
  header_.columns_offset = offset_;
  header_.num_columns = static_cast<uint32_t>(columns_.size());
  header_.checksums_offset = offset_ + columns_.size() * sizeof(ColumnEntry);
  header_.num_blocks = checksums_.size();
  header_.file_bytes = header_.checksums_offset + checksums_.size() * sizeof(uint64_t);

  const auto columns = std::as_bytes(std::span(columns_)), checksums = std::as_bytes(std::span(checksums_));
  StreamingHash tables;
  tables.update(columns);
  tables.update(checksums);
  header_.tables_checksum = tables.digest_64();
  header_.header_checksum = xxh3_64(bytes_of(header_).first(offsetof(ShardHeader, header_checksum)));

  file_.write(columns);
  file_.write(checksums);
  file_.write_at(0, bytes_of(header_));
  file_.sync();
  file_.close();
  rename_path(temporary_, path_);
  finished_ = true;
  return header_;
}

}  // namespace hearth::data
