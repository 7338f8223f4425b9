// SPDX-License-Identifier: Apache-2.0
#include "columnar/rows.h"

#include <algorithm>

namespace hearth::columnar {

std::string message_of(const arrow::Status& status) {
  std::string message = status.message();
  message.erase(std::min(message.find('\n'), message.size()));
  return message.empty() ? status.CodeAsString() : message;
}

bool RowsInBatches::next(data::ColumnRow& row) {
  if (done_) return false;
  const arrow::Status status = guarded([&] { return advance(); });
  row.number = row_number_;
  if (!status.ok()) {
    done_ = true;
    row.fail(data::RecordProblem::kUnreadable, message_of(status));
    return true;
  }
  if (done_) return false;
  rows_.read(next_in_batch_++, row);
  ++row_number_;
  return true;
}

bool RowsInBatches::find(const arrow::Schema& schema, WantedColumns& wanted, data::ColumnFailure& failure) {
  if (!find_wanted(schema, *request_.rules, wanted, failure)) return false;
  if (wanted.kind == data::ColumnKind::kArrays) memory_.set_limit(request_.array_memory_bytes);
  rows_ = BatchRows(wanted, request_.rules, request_.max_record_bytes);
  return true;
}

std::unique_ptr<data::ColumnRows> opened(std::unique_ptr<RowsInBatches> rows, const char* what,
                                         data::ColumnFailure& failure) {
  const arrow::Status status = guarded([&] { return rows->open(failure); });
  if (!status.ok()) failure = {true, std::string(what) + " cannot be read: " + message_of(status), {}, {}};
  if (!failure.what.empty()) return nullptr;
  return rows;
}

}  // namespace hearth::columnar
