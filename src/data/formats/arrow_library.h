// SPDX-License-Identifier: Apache-2.0
// The Arrow and Parquet libraries, behind a shared object of our own (src/columnar). It is loaded when the first such
// file is opened: hearth starts without these 60 MB, and a build without them does everything else.
//
// No exception leaves the shared object: errors are returned. It implements the classes below. A shared object of
// another build is refused (base/shared_object.h).
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "data/formats/label_weights.h"
#include "data/formats/read_rules.h"
#include "recordings/spike_array.h"

namespace hearth::data {

// Why a file could not be opened. `damaged`: its bytes are wrong; otherwise: it lacks the requested content.
struct ColumnFailure {
  bool damaged = false;
  std::string what, why, fix;  // as in Error; the caller puts the file's name before `what`
};

// The content of the wanted columns.
enum class ColumnKind {
  kText,    // strings or bytes
  kIds,     // lists of integers
  kArrays,  // lists of lists of integers
};

// A row's values in the wanted columns. Views are valid until the next call.
struct ColumnRow {
  int64_t number = 0;                   // in the file, counted from 0
  std::vector<std::string_view> texts;  // in the order of the keys; a list's elements in the list's order; any bytes
  std::vector<size_t> text_ends;        // of each key: number of texts of it and of the keys before
  std::span<const uint32_t> ids;
  // From labels_key and weights_key: one per id, or one for all texts. Empty: neither key is set.
  std::span<const float> weights;
  std::span<const uint8_t> counts;  // [neurons, bins] of `shape`
  recordings::ArrayShape shape;
  recordings::ArrayLabels labels;  // from the columns of these names, also of a wrong array; empty: no such column
  // kMissingKey (null), kWrongType (a token that is no id, a list that is no array), kTooLong (an array), or
  // kUnreadable, which is always the last row.
  RecordProblem problem = RecordProblem::kNone;
  std::string why;

  void fail(RecordProblem what, std::string why_so) {
    problem = what;
    why = std::move(why_so);
  }
};

// The rows of a file, or of the row groups or record batches that start in a range of it.
class ColumnRows {
 public:
  virtual ~ColumnRows() = default;
  virtual ColumnKind kind() const = 0;
  virtual bool next(ColumnRow& row) = 0;
  virtual int64_t bytes_read() const = 0;  // of the range, approximately
};

struct ColumnRequest {
  Format format = Format::kParquet;  // or kArrow
  std::span<const std::byte> file;   // mapped; outlives the rows
  const ReadRules* rules;            // its keys name the columns; outlives the rows
  int64_t memory_bytes = 0;          // limit of the decoder; a file that needs more is damaged
  int64_t array_memory_bytes = 0;    // the same for a column of arrays
  int64_t max_record_bytes = 0;      // of an array
  SourceRange range;
};

enum class SavedType { kText, kInt8List, kInt32List, kInt64List, kFloatList };
struct SavedColumn {
  std::string name;
  SavedType type = SavedType::kText;
};

// The destination of a table's bytes.
class ByteSink {
 public:
  virtual ~ByteSink() = default;
  virtual bool write(std::span<const std::byte> bytes) = 0;  // false: it failed, and the sink knows why
};

// Arrow's IPC stream: schema, record batches of at most 1000 rows, end mark. Every call returns an error message, which
// is empty on success.
class TableWriter {
 public:
  virtual ~TableWriter() = default;
  // A row is one call for each column, in any order, then end_row().
  virtual std::string add_text(size_t column, std::string_view text) = 0;
  // Adds a list of integers of any width; each value must fit into it.
  virtual std::string add_ids(size_t column, std::span<const int32_t> ids) = 0;
  virtual std::string add_weights(size_t column, std::span<const float> weights) = 0;
  virtual std::string end_row() = 0;
  virtual std::string finish() = 0;
};

class ArrowLibrary {
 public:
  virtual ~ArrowLibrary() = default;
  // Null and `failure` if the file cannot be opened. Thread-safe.
  virtual std::unique_ptr<ColumnRows> open_rows(const ColumnRequest& request, ColumnFailure& failure) const = 0;
  // `metadata` is the schema's value of the key "huggingface". Null and `error` if the table cannot be made.
  virtual std::unique_ptr<TableWriter> new_table(const std::vector<SavedColumn>& columns, std::string_view metadata,
                                                 ByteSink& sink, std::string& error) const = 0;
};

// The entry of the shared object, its only symbol: HEARTH_ARROW_ENTRY.
using OpenArrowLibrary = const ArrowLibrary* (*)();
inline constexpr const char* kArrowObject = "libhearth_arrow.so";

// Loads the shared object on the first call. Throws user_error if this host does not have it.
const ArrowLibrary& arrow_library();

}  // namespace hearth::data
