// SPDX-License-Identifier: Apache-2.0
#include "data/shard/shard_reader.h"

#include <algorithm>
#include <bit>
#include <cstring>

#include "base/error.h"
#include "base/hash.h"

namespace hearth::data {
namespace {

// a + b <= limit without overflow.
bool fits(uint64_t a, uint64_t b, uint64_t limit) { return a <= limit && b <= limit - a; }

ShardHeader read_header(const Path& path, std::span<const std::byte> file) {
  ShardHeader header{};
  // Not memcpy: an empty file has no address at all.
  std::ranges::copy(file.first(std::min(file.size(), sizeof header)),
                    std::as_writable_bytes(std::span(&header, 1)).begin());
  if (std::memcmp(header.magic, kShardMagic, sizeof kShardMagic) != 0)
    throw user_error(fmt::format("{} is not a shard of Hearth", path.string()), "it does not start with HRTHSHRD",
                     "give a folder made by `hearth data build`; if it was one, the shard's first bytes are damaged");
  if (header.version != kShardVersion && header.version != kOutsideVersion)
    throw user_error(fmt::format("shard {} has version {}", path.string(), header.version),
                     fmt::format("this hearth reads versions {} and {}", kShardVersion, kOutsideVersion),
                     "build the dataset again, or use the hearth that wrote it");
  if (file.size() < sizeof header) throw bad_shard(path, fmt::format("it is cut short: {} bytes", file.size()));
  const auto checked = std::as_bytes(std::span(&header, 1)).first(offsetof(ShardHeader, header_checksum));
  if (xxh3_64(checked) != header.header_checksum) throw bad_shard(path, "its header has a wrong checksum");
  if (header.file_bytes != file.size())
    throw bad_shard(path, fmt::format("it has {} bytes instead of {}", file.size(), header.file_bytes));
  return header;
}

Column parse_column(const Path& path, const ColumnEntry& record, const ShardHeader& header) {
  Column column;
  column.name.assign(record.name, ::strnlen(record.name, sizeof record.name));
  const uint64_t size = element_size(record.element_type);
  const bool any_rows = record.axis == static_cast<uint32_t>(ColumnAxis::kShard) &&
                        header.version == kOutsideVersion;  // the axis has no size
  const bool axis_known = any_rows || record.axis == static_cast<uint32_t>(ColumnAxis::kToken) ||
                          record.axis == static_cast<uint32_t>(ColumnAxis::kDocument);
  const bool outside = record.storage == static_cast<uint32_t>(Storage::kOutside) && header.version == kOutsideVersion;
  const bool lies_well = outside ? fits(record.data_offset, record.data_bytes, INT64_MAX)
                                 : record.storage == static_cast<uint32_t>(Storage::kHere) &&
                                       fits(record.data_offset, record.data_bytes, header.columns_offset) &&
                                       record.data_offset >= header.header_bytes &&
                                       record.data_offset % kColumnAlignment == 0;
  if (size == 0 || !axis_known || record.row_rank > 4 || !lies_well)
    throw bad_shard(path, fmt::format("the table entry of column \"{}\" is invalid", column.name));
  column.type = static_cast<ElementType>(record.element_type);
  column.axis = static_cast<ColumnAxis>(record.axis);
  column.row_shape.assign(record.row_shape, record.row_shape + record.row_rank);
  column.num_rows = record.num_rows;
  column.data_offset = record.data_offset;
  column.data_bytes = record.data_bytes;
  column.storage = outside ? Storage::kOutside : Storage::kHere;
  // rows * bytes of a row == data_bytes, by division to avoid overflow.
  uint64_t rows = record.data_bytes / size;
  bool exact = record.data_bytes % size == 0;
  for (const uint64_t extent : column.row_shape) {
    exact = exact && extent > 0 && rows % extent == 0;
    if (extent > 0) rows /= extent;
  }
  const uint64_t expected = column.axis == ColumnAxis::kToken ? header.num_tokens : header.num_documents;
  if (!exact || rows != record.num_rows || (rows != expected && !any_rows))
    throw bad_shard(path, fmt::format("column \"{}\" has a wrong number of rows", column.name));
  return column;
}

}  // namespace

ShardReader::ShardReader(const Path& path) : path_(path), file_(path), header_(read_header(path, file_.bytes())) {
  read_tables();
}

void ShardReader::read_tables() {
  const ShardHeader& h = header_;
  if (h.header_bytes != sizeof(ShardHeader) || !std::has_single_bit(h.block_bytes) ||
      !fits(h.header_bytes, 0, h.columns_offset) || h.columns_offset % 8 != 0 ||
      !fits(h.columns_offset, uint64_t{h.num_columns} * sizeof(ColumnEntry), h.checksums_offset) ||
      h.num_blocks > h.file_bytes / sizeof(uint64_t) ||
      !fits(h.checksums_offset, h.num_blocks * sizeof(uint64_t), h.file_bytes) ||
      h.num_blocks != (h.columns_offset - h.header_bytes + h.block_bytes - 1) / h.block_bytes)
    throw bad_shard(path_, "its header is invalid");
  const auto tables = file_.bytes().subspan(h.columns_offset);
  if (xxh3_64(tables) != h.tables_checksum)
    throw bad_shard(path_, "its tables (columns and block checksums) have a wrong checksum");
  for (uint32_t i = 0; i < h.num_columns; ++i) {
    ColumnEntry record;
    std::memcpy(&record, tables.data() + i * sizeof record, sizeof record);
    columns_.push_back(parse_column(path_, record, h));
  }
  checksums_ = file_.bytes().subspan(h.checksums_offset, h.num_blocks * sizeof(uint64_t));
  uint64_t blocks = h.num_blocks;
  const auto outside = std::ranges::find(columns_, Storage::kOutside, &Column::storage);
  if (outside != columns_.end()) {
    if (std::ranges::count(columns_, Storage::kOutside, &Column::storage) > 1)
      throw bad_shard(path_, "more than one of its columns is in another file");
    open_outside(*outside);
    blocks += outside_checksums_.size() / sizeof(uint64_t);
  }
  block_checked_ = std::make_unique<std::atomic<uint8_t>[]>(blocks);
}

// A column on axis kShard, with every byte checked.
std::span<const std::byte> ShardReader::whole_column(std::string_view name, ElementType type, uint64_t rows) const {
  const Column* column = find_column(name);
  if (column == nullptr || column->axis != ColumnAxis::kShard || column->storage != Storage::kHere ||
      column->type != type || !column->row_shape.empty() || (rows > 0 && column->num_rows != rows))
    throw bad_shard(path_, fmt::format("its column \"{}\" is missing or invalid", name));
  const uint64_t base = column->data_offset - header_.header_bytes;
  for (uint64_t block = base / header_.block_bytes; block * header_.block_bytes < base + column->data_bytes; ++block)
    if (!block_is_good(block)) throw bad_shard(path_, describe_block(block));
  return column_bytes(*column);
}

void ShardReader::open_outside(const Column& column) {
  const auto path = whole_column(kOutsidePathColumn, ElementType::kU8, 0);
  const auto size = whole_column(kOutsideBytesColumn, ElementType::kU64, 1);
  uint64_t file_bytes;
  std::memcpy(&file_bytes, size.data(), sizeof file_bytes);
  const uint64_t blocks =
      column.data_bytes / header_.block_bytes + (column.data_bytes % header_.block_bytes > 0 ? 1 : 0);
  if (blocks > 0) outside_checksums_ = whole_column(kOutsideChecksumsColumn, ElementType::kU64, blocks);
  const std::string name(reinterpret_cast<const char*>(path.data()), path.size());
  if (!Path(name).is_absolute() || name.find('\0') != std::string::npos ||
      !fits(column.data_offset, column.data_bytes, file_bytes))
    throw bad_shard(path_, "its description of the file with its tokens is invalid");
  outside_path_ = name;
  const auto lost = [&](std::string_view what) {
    return damaged(fmt::format("shard {} cannot be read", path_.string()),
                   fmt::format("its tokens are in {}, which {}", name, what),
                   "put the file back as it was, or build the dataset again");
  };
  // Only a regular file is opened: opening a pipe would wait.
  std::error_code error;
  if (!std::filesystem::is_regular_file(outside_path_, error)) throw lost("is missing");
  const uint64_t there = std::filesystem::file_size(outside_path_, error);
  if (error) throw lost("cannot be read");
  if (there != file_bytes) throw lost(fmt::format("has {} bytes instead of {}", there, file_bytes));
  outside_offset_ = column.data_offset;
  outside_ =
      MappedFile(outside_path_, static_cast<int64_t>(column.data_offset), static_cast<int64_t>(column.data_bytes));
}

const Column* ShardReader::find_column(std::string_view name) const {
  const auto found = std::ranges::find(columns_, name, &Column::name);
  return found == columns_.end() ? nullptr : &*found;
}

std::span<const std::byte> ShardReader::column_bytes(const Column& column) const {
  if (column.storage == Storage::kOutside) return outside_.bytes();
  return file_.bytes().subspan(column.data_offset, column.data_bytes);
}

ShardReader::Block ShardReader::block_at(uint64_t block) const {
  Block found{};
  const bool here = block < header_.num_blocks;
  const uint64_t index = here ? block : block - header_.num_blocks;
  const uint64_t offset = here ? header_.header_bytes : outside_offset_;
  found.begin = offset + index * header_.block_bytes;
  found.end = std::min(found.begin + header_.block_bytes,
                       here ? header_.columns_offset : outside_offset_ + outside_.bytes().size());
  const auto all = here ? file_.bytes() : outside_.bytes();
  found.bytes = all.subspan(found.begin - (here ? 0 : outside_offset_), found.end - found.begin);
  found.checksum = (here ? checksums_ : outside_checksums_).subspan(index * sizeof(uint64_t), sizeof(uint64_t));
  return found;
}

bool ShardReader::block_is_good(uint64_t block) const {
  const Block checked = block_at(block);
  uint64_t expected;
  std::memcpy(&expected, checked.checksum.data(), sizeof expected);
  return xxh3_64(checked.bytes) == expected;
}

std::string ShardReader::describe_block(uint64_t block) const {
  const auto [begin, end, bytes, checksum] = block_at(block);
  const Storage storage = block < header_.num_blocks ? Storage::kHere : Storage::kOutside;
  std::string names;
  for (const Column& column : columns_) {
    if (column.storage == storage && column.data_offset < end && begin < column.data_offset + column.data_bytes)
      names += fmt::format("{}{}", names.empty() ? "" : ", ", column.name);
  }
  if (storage == Storage::kOutside)
    return fmt::format("bytes {} to {} of {} (column {}) have a wrong checksum", begin, end, outside_path_.string(),
                       names);
  return fmt::format("block {} (bytes {} to {}, column {}) has a wrong checksum", block, begin, end,
                     names.empty() ? "padding" : names);
}

void ShardReader::check_range(const Column& column, uint64_t begin, uint64_t end) const {
  HEARTH_CHECK(begin <= end && end <= column.data_bytes);
  if (begin == end) return;
  const bool here = column.storage == Storage::kHere;
  const uint64_t base = here ? column.data_offset - header_.header_bytes : 0;
  const uint64_t first_block = here ? 0 : header_.num_blocks;
  const uint64_t last = first_block + (base + end - 1) / header_.block_bytes;
  for (uint64_t block = first_block + (base + begin) / header_.block_bytes; block <= last; ++block) {
    // Two threads may both check a block, with the same result.
    if (block_checked_[block].load(std::memory_order_relaxed) != 0) continue;
    if (!block_is_good(block)) throw bad_shard(path_, describe_block(block));
    block_checked_[block].store(1, std::memory_order_relaxed);
  }
}

std::vector<std::string> ShardReader::find_damage() const {
  std::vector<std::string> damage;
  const uint64_t blocks = header_.num_blocks + outside_checksums_.size() / sizeof(uint64_t);
  for (uint64_t block = 0; block < blocks; ++block) {
    if (!block_is_good(block)) damage.push_back(describe_block(block));
  }
  return damage;
}

}  // namespace hearth::data
