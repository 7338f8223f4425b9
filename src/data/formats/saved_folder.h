// SPDX-License-Identifier: Apache-2.0
// Writes a folder that Hugging Face's `datasets` opens with load_from_disk, laid out as its save_to_disk does.
#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/file.h"
#include "data/formats/arrow_library.h"

namespace hearth::data {

// The content of a folder that save_to_disk writes.
struct SavedTable {
  std::vector<SavedColumn> columns;
  int64_t rows = 0;
  int64_t bytes = 0;      // of all values and 32-bit offsets, as the library counts them; decides the number of files
  std::string made_from;  // equal for equal content: its hash is the fingerprint by which the library caches
  std::string split;      // "train"
};

// The row being written. Throws the disk's errors, and user_error if Arrow refuses a row.
class SavedRow {
 public:
  using Check = std::function<void(const std::string& error)>;
  SavedRow(TableWriter& table, Check check) : table_(table), check_(std::move(check)) {}
  void add_text(size_t column, std::string_view text) { check_(table_.add_text(column, text)); }
  void add_ids(size_t column, std::span<const int32_t> ids) { check_(table_.add_ids(column, ids)); }
  void add_weights(size_t column, std::span<const float> weights) { check_(table_.add_weights(column, weights)); }

 private:
  TableWriter& table_;
  Check check_;
};

// Writes files of about `file_bytes` at most, split as save_to_disk splits them. `fill` is called for each row, in
// order, and sets every column. All is written to a temporary folder, which then replaces the old one.
void write_saved_folder(const Path& folder, const SavedTable& table, int64_t file_bytes,
                        const std::function<void(int64_t row, SavedRow& out)>& fill);

}  // namespace hearth::data
