// Tables that were worked out from a dataset and can be worked out again: arrays of numbers in memory, kept in a file.
//
//   "HRTHTABL", u32 version, u32 number of arrays, 16 bytes key, u64 size of the file
//   u64 bytes and u64 XXH3-64 of each array; u64 XXH3-64 of all before
//   the arrays, each at a multiple of 8
//
// A cache, not a format: any program may delete such a file at any time, and a file that is damaged is made anew.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/file.h"

namespace hearth::data {

// Numbers that a vector or a mapped file holds. Copies share them.
class TableArray {
 public:
  template <typename T>
  explicit TableArray(std::vector<T> values) {
    auto owner = std::make_shared<const std::vector<T>>(std::move(values));
    bytes_ = std::as_bytes(std::span(*owner));
    owner_ = std::move(owner);
  }
  TableArray(std::shared_ptr<const MappedFile> file, std::span<const std::byte> bytes)
      : owner_(std::move(file)), bytes_(bytes) {}

  std::span<const std::byte> bytes() const { return bytes_; }
  template <typename T>
  bool holds(size_t least = 0) const {
    return bytes_.size() % sizeof(T) == 0 && bytes_.size() / sizeof(T) >= least;
  }
  template <typename T>
  std::span<const T> as() const {
    return {reinterpret_cast<const T*>(bytes_.data()), bytes_.size() / sizeof(T)};
  }

 private:
  std::shared_ptr<const void> owner_;
  std::span<const std::byte> bytes_;
};
using Table = std::vector<TableArray>;

// Throws damaged() for a file that is not whole or has another key, system_error where it cannot be read.
Table read_table(const Path& path, std::string_view key);
// Whole or not at all, whoever else writes the same table. Throws system_error, and leaves nothing behind then.
void write_table(const Path& path, std::string_view key, const Table& table);

// What became of keep_table, for people; empty parts did not happen.
struct TableNote {
  bool built = false;
  std::string damage;  // of the file that was there: why it was not used
  std::string unkept;  // why it could not be kept: the folder is read-only, the disk is full
};

// The table of `key` as `read` makes it of the file FOLDER/NAME-HASH.table, or of what `build` returns; that is written
// there, if it can be. `key` says everything that the table depends on. `read` throws damaged() where the arrays make
// no sense.
void keep_table(const Path& folder, std::string_view name, std::string_view key, TableNote& note,
                const std::function<Table()>& build, const std::function<void(Table)>& read);

}  // namespace hearth::data
