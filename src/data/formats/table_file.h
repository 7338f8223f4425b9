// SPDX-License-Identifier: Apache-2.0
// Tables computed from a dataset: arrays of numbers in memory, cached in a file. They can be computed again.
//
//   "HRTHTABL", u32 version, u32 number of arrays, 16 bytes key, u64 size of the file
//   u64 bytes and u64 XXH3-64 of each array; u64 XXH3-64 of everything before it
//   the arrays, each at a multiple of 8
//
// A cache, not a format: any program may delete such a file at any time. A damaged file is made again.
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

// Numbers in a vector or in a mapped file. Copies share them.
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
using TableArrays = std::vector<TableArray>;

// Throws damaged() for an incomplete file or another key, system_error if it cannot be read.
TableArrays read_table(const Path& path, std::string_view key);
// Writes the whole file or none, also if others write the same table. Throws system_error, and then leaves no file
// behind.
void write_table(const Path& path, std::string_view key, const TableArrays& table);

// The outcome of keep_table, for messages. An empty text: no such event.
struct TableNote {
  bool built = false;
  std::string damage;  // why the existing file was not used
  std::string unkept;  // why it could not be saved: the folder is read-only, the disk is full
};

// Reads the table of `key` from FOLDER/NAME-HASH.table. If that fails, calls `build` and keeps its table in that file,
// if possible. `read` receives the table; it throws damaged() for invalid arrays. `key` names everything that the table
// depends on.
void keep_table(const Path& folder, std::string_view name, std::string_view key, TableNote& note,
                const std::function<TableArrays()>& build, const std::function<void(TableArrays)>& read);

}  // namespace hearth::data
