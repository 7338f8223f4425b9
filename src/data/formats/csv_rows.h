// SPDX-License-Identifier: Apache-2.0
// Tables of text with separated fields: comma-separated values (RFC 4180) and their kin, in the memory of one row.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "data/formats/stream_buffer.h"

namespace hearth::data {

// The problem of a row whose open quote takes the rest of the file.
inline constexpr std::string_view kOpenQuote = "a quoted field has no end";

struct CsvRow {
  int64_t position = 0;  // of its first byte in the stream
  int64_t line = 1;      // of that byte, counted from 1
  // Without their quotes; good until the next call. Empty if the row is too long or has a problem.
  std::vector<std::string_view> fields;
  bool too_long = false;
  std::string_view problem;  // what is wrong with the row, such as kOpenQuote; empty: no problem
};

// A field in quotes may have separators, line ends, and quotes that are doubled. A quote inside a field without quotes
// is an ordinary character. Lines end with "\n", "\r\n" or "\r"; empty lines are no rows. A byte order mark is passed
// over.
class CsvRows {
 public:
  CsvRows(std::unique_ptr<ByteStream> stream, char separator, int64_t max_bytes);

  bool next(CsvRow& row);  // false at the end. Throws the stream's errors
  int64_t bytes_read() const { return buffer_.bytes_read(); }

 private:
  bool has_byte();  // whether there is a byte at at_
  char byte() const { return buffer_.held()[at_]; }
  void keep_run(std::string_view until);
  void read_quoted(CsvRow& row);
  void pass_line();
  void pass_line_end();

  StreamBuffer buffer_;
  std::string separators_, ends_;  // of a field: with and without the separator
  size_t max_bytes_;
  int64_t line_ = 1;
  size_t at_ = 0;  // in the held bytes
  bool begun_ = false, too_long_ = false;
  std::string text_;  // of the row's fields
  std::vector<size_t> field_ends_;
};

}  // namespace hearth::data
