// The Arrow and Parquet libraries behind a shared object of our own (src/columnar), which is loaded when the first file
// of theirs is opened: hearth starts without 60 MB of libraries, and a build without them can do everything else.
//
// Nothing is thrown across: what goes wrong comes back as a value. The shared object implements the classes below; one
// of another build is refused (base/shared_object.h).
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "data/formats/label_weights.h"
#include "data/formats/read_rules.h"
#include "data/formats/spike_array.h"

namespace hearth::data {

// Why a file could not be opened. `damaged`: its bytes are wrong; otherwise it does not hold what was asked for.
struct ColumnFailure {
  bool damaged = false;
  std::string what, why, fix;  // as in Error, `what` to be put behind the file's name
};

// What the wanted columns hold.
enum class ColumnKind {
  kText,    // strings or bytes
  kIds,     // lists of integers
  kArrays,  // lists of lists of integers
};

// A row's values at the wanted columns. Views are good until the next call.
struct ColumnRow {
  int64_t number = 0;                   // in the file, counted from 0
  std::vector<std::string_view> texts;  // in the order of the keys, a list's elements in theirs; any bytes
  std::vector<size_t> text_ends;        // of each key: how many texts are of it and the keys before
  std::span<const uint32_t> ids;
  // By labels_key and weights_key: one an id, or one for all texts; empty: none was asked for.
  std::span<const float> weights;
  std::span<const uint8_t> counts;  // [neurons, bins] of `shape`
  ArrayShape shape;
  ArrayLabels labels;  // of an array, even a wrong one: the columns of these names; empty: no such column
  // kMissingKey (null), kWrongType (a token that is no id, a list that is no array), kTooLong (an array), or
  // kUnreadable, after which there is nothing.
  Problem problem = Problem::kNone;
  std::string why;
};

// The rows of a file, or of the row groups or record batches that start in a range of it.
class ColumnRows {
 public:
  virtual ~ColumnRows() = default;
  virtual ColumnKind kind() const = 0;
  virtual bool next(ColumnRow& row) = 0;
  virtual int64_t bytes_read() const = 0;  // of the range, about
};

struct ColumnRequest {
  Format format = Format::kParquet;  // or kArrow
  std::span<const std::byte> file;   // mapped; outlives the rows
  const ReadRules* rules;            // whose keys name the columns; outlive the rows
  int64_t memory_bytes = 0;          // what decoding may take; a file that asks for more is damaged
  int64_t array_memory_bytes = 0;    // the same, where the column is one of arrays
  int64_t max_record_bytes = 0;      // of an array
  SourceRange range;
};

enum class SavedType { kText, kInt8List, kInt32List, kInt64List, kFloatList };
struct SavedColumn {
  std::string name;
  SavedType type = SavedType::kText;
};

// Where a table's bytes go.
class ByteSink {
 public:
  virtual ~ByteSink() = default;
  virtual bool write(std::span<const std::byte> bytes) = 0;  // false: it failed, and somebody here knows why
};

// Arrow's IPC stream: schema, record batches of at most 1000 rows, end mark. Every call returns an error message, or
// nothing when all is well.
class TableWriter {
 public:
  virtual ~TableWriter() = default;
  // A row is a call for each column, in any order, and end_row().
  virtual std::string add_text(size_t column, std::string_view text) = 0;
  // Adds a list of any width; each value fits into it.
  virtual std::string add_ids(size_t column, std::span<const int32_t> ids) = 0;
  virtual std::string add_weights(size_t column, std::span<const float> weights) = 0;
  virtual std::string end_row() = 0;
  virtual std::string finish() = 0;
};

class ArrowLibrary {
 public:
  virtual ~ArrowLibrary() = default;
  // Null and `failure` for a file that cannot be opened. Thread-safe.
  virtual std::unique_ptr<ColumnRows> open_rows(const ColumnRequest& request, ColumnFailure& failure) const = 0;
  // `metadata` is what the schema carries under the key "huggingface". Null and `error` where it cannot be made.
  virtual std::unique_ptr<TableWriter> new_table(const std::vector<SavedColumn>& columns, std::string_view metadata,
                                                 ByteSink& sink, std::string& error) const = 0;
};

// The entry of the shared object, its only symbol: HEARTH_ARROW_ENTRY.
using OpenArrowLibrary = const ArrowLibrary* (*)();
inline constexpr const char* kArrowObject = "libhearth_arrow.so";

// Loads the shared object if this is the first call. Throws user_error where it is not on this host.
const ArrowLibrary& arrow_library();

}  // namespace hearth::data
