// SPDX-License-Identifier: Apache-2.0
#include "data/formats/csv_rows.h"

#include <algorithm>
#include <utility>

namespace hearth::data {

CsvRows::CsvRows(std::unique_ptr<ByteStream> stream, char separator, int64_t max_bytes)
    : buffer_(std::move(stream)),
      separators_(std::string("\r\n") + separator),
      ends_("\r\n"),
      max_bytes_(static_cast<size_t>(max_bytes)) {}

// The text of a row that is too long is dropped.
bool CsvRows::has_byte() {
  if (at_ < buffer_.held().size()) return true;
  if (at_ > max_bytes_) {
    too_long_ = true;
    text_.clear();
    field_ends_.clear();
    buffer_.drop(std::exchange(at_, 0));
  }
  return buffer_.fill();
}

// Keeps the bytes up to one of `until` or the stream's end.
void CsvRows::keep_run(std::string_view until) {
  while (has_byte()) {
    const std::string_view held = buffer_.held();
    const size_t end = std::min(held.find_first_of(until, at_), held.size());
    if (!too_long_) text_.append(held.substr(at_, end - at_));
    line_ += std::count(held.begin() + static_cast<ptrdiff_t>(at_), held.begin() + static_cast<ptrdiff_t>(end), '\n');
    at_ = end;
    if (end < held.size()) return;
  }
}

void CsvRows::read_quoted(CsvRow& row) {
  ++at_;
  for (;;) {
    keep_run("\"");
    if (!has_byte()) {
      row.problem = kOpenQuote;
      return;
    }
    ++at_;
    if (!has_byte() || byte() != '"') break;
    text_ += '"';
    ++at_;
  }
  if (has_byte() && separators_.find(byte()) == std::string::npos) row.problem = "something follows a closing quote";
}

void CsvRows::pass_line() {
  keep_run(ends_);
  text_.clear();
}

void CsvRows::pass_line_end() {
  if (!has_byte()) return;
  const bool is_return = byte() == '\r';
  ++at_;
  ++line_;
  if (is_return && has_byte() && byte() == '\n') ++at_;
}

bool CsvRows::next(CsvRow& row) {
  if (!std::exchange(begun_, true)) buffer_.drop_byte_order_mark();
  while (has_byte() && ends_.find(byte()) != std::string::npos) pass_line_end();
  buffer_.drop(std::exchange(at_, 0));
  too_long_ = false;
  text_.clear();
  field_ends_.clear();
  row = {buffer_.position(), line_, {}, false, {}};
  if (!has_byte()) return false;
  for (;;) {
    if (has_byte() && byte() == '"')
      read_quoted(row);
    else
      keep_run(separators_);
    if (!row.problem.empty()) break;
    field_ends_.push_back(text_.size());
    if (!has_byte() || ends_.find(byte()) != std::string::npos) break;
    ++at_;  // the separator
  }
  if (!row.problem.empty()) pass_line();
  const bool too_long = too_long_ || at_ > max_bytes_;
  pass_line_end();
  row.too_long = too_long;
  size_t begin = 0;
  for (const size_t end : field_ends_) {
    if (!too_long && row.problem.empty()) row.fields.push_back(std::string_view(text_).substr(begin, end - begin));
    begin = end;
  }
  buffer_.drop(std::exchange(at_, 0));
  return true;
}

}  // namespace hearth::data
