// Readers of the two families of files, and the conversion of Arrow's errors to ours.
#pragma once

#include <arrow/result.h>
#include <arrow/status.h>

#include <exception>
#include <memory>
#include <string>

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

}  // namespace hearth::columnar
