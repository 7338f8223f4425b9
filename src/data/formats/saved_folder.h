// Writes a folder that Hugging Face's `datasets` opens with load_from_disk, laid out as its save_to_disk does.
#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/file.h"
#include "data/formats/arrow_library.h"

namespace hearth::data {

// What such a folder will hold.
struct SavedTable {
  std::vector<SavedColumn> columns;
  int64_t rows = 0;
  int64_t bytes = 0;      // of all values and 32-bit offsets, as the library counts them: how many files there are
  std::string made_from;  // equal for equal content: the library's caches go by a hash of it
  std::string split;      // "train"
};

// The row that is being written. Throws what the disk throws, and user_error where Arrow refuses a row.
class SavedRow {
 public:
  virtual ~SavedRow() = default;
  virtual void add_text(size_t column, std::string_view text) = 0;
  virtual void add_ids(size_t column, std::span<const int32_t> ids) = 0;
  virtual void add_weights(size_t column, std::span<const float> weights) = 0;
};

// Files of about `file_bytes` at most, cut as save_to_disk cuts them. `fill` is called for each row, in order, and
// gives every column its value. The folder is written beside itself and replaced as a whole.
void write_saved_folder(const Path& folder, const SavedTable& table, int64_t file_bytes,
                        const std::function<void(int64_t row, SavedRow& out)>& fill);

}  // namespace hearth::data
