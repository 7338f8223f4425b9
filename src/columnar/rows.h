// SPDX-License-Identifier: Apache-2.0
// Readers of the two families of files, what they have in common, and the conversion of Arrow's errors to ours.
#pragma once

#include <arrow/result.h>
#include <arrow/status.h>

#include <exception>
#include <memory>
#include <string>

#include "columnar/memory_limit.h"
#include "columnar/wanted.h"
#include "data/formats/arrow_library.h"

namespace hearth::columnar {

std::unique_ptr<data::ColumnRows> open_parquet_rows(const data::ColumnRequest& request, data::ColumnFailure& failure);
// Reads the file format ("ARROW1") and the stream format.
std::unique_ptr<data::ColumnRows> open_ipc_rows(const data::ColumnRequest& request, data::ColumnFailure& failure);

// Arrow's message in one line.
std::string message_of(const arrow::Status& status);

// Runs code that calls Arrow. Arrow returns a Status and Parquet's classes throw: no exception leaves this object.
template <typename Body>
arrow::Status guarded(Body body) {
  try {
    return body();
  } catch (const std::bad_alloc&) {
    return arrow::Status::OutOfMemory("there is not enough memory");
  } catch (const std::exception& e) {
    return arrow::Status::Invalid(e.what());
  }
}

// Rows from one batch after another.
class RowsInBatches : public data::ColumnRows {
 public:
  explicit RowsInBatches(const data::ColumnRequest& request)
      : request_(request), memory_(request.memory_bytes), rows_({}, nullptr, 0) {}

  // If the file lacks the columns, only `failure` is set.
  virtual arrow::Status open(data::ColumnFailure& failure) = 0;
  data::ColumnKind kind() const final { return rows_.kind(); }
  bool next(data::ColumnRow& row) final;

 protected:
  // Reads batches until there is a row, or sets done_.
  virtual arrow::Status advance() = 0;
  // Prepares rows_ for batches of this schema, of the part of the table that has the wanted columns. False, and
  // `failure`, if the schema lacks them.
  bool find(const arrow::Schema& schema, WantedColumns& wanted, data::ColumnFailure& failure);

  data::ColumnRequest request_;
  LimitedMemory memory_;  // must outlive all data read
  BatchRows rows_;
  int64_t row_number_ = 0;  // of the next row, in the file
  int64_t next_in_batch_ = 0;
  bool done_ = false;
};

// Opens `rows`. If that fails, returns null and sets `failure`. `what` names the file for damage: "the Arrow file".
std::unique_ptr<data::ColumnRows> opened(std::unique_ptr<RowsInBatches> rows, const char* what,
                                         data::ColumnFailure& failure);

}  // namespace hearth::columnar
