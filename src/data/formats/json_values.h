// SPDX-License-Identifier: Apache-2.0
// Cuts JSON into records, in the memory of one: the values of an array, or values one after another, on any lines.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>

#include "data/formats/stream_buffer.h"

namespace hearth::data {

struct JsonValue {
  int64_t position = 0;   // of its first byte in the stream
  int64_t line = 1;       // of that byte, counted from 1; a line ends with "\n"
  std::string_view text;  // good until the next call
  bool too_long = false;  // then `text` is empty
};

// Finds where values begin and end, by brackets and quotes. Whether they are JSON is not checked: json_text.h does
// that.
class JsonValues {
 public:
  // A value longer than max_bytes comes without its text.
  JsonValues(std::unique_ptr<ByteStream> stream, int64_t max_bytes);

  // False at the end. Throws damaged() for characters between values that are not JSON, and for a stream that ends
  // inside a value or an array.
  bool next(JsonValue& value);
  bool in_array() const { return in_array_; }  // after the first call
  bool at_end() const { return at_end_; }      // the stream's end was met: it may have cut a value, or caused an error
  int64_t line() const { return line_; }       // of the value, or of the place of an error
  int64_t bytes_read() const { return buffer_.bytes_read(); }

 private:
  [[noreturn]] void fail(std::string_view what) const;
  void begin();
  bool find_value();  // false at the end
  int peek();         // the next character that is no space; -1 at the end
  void take(size_t bytes);
  size_t scan_nested(JsonValue& value);
  size_t scan_word(JsonValue& value);
  bool more(size_t& scanned, JsonValue& value);
  bool fill();

  StreamBuffer buffer_;
  size_t max_bytes_;
  int64_t line_ = 1;
  size_t given_ = 0;  // held bytes of the value that was returned
  bool begun_ = false, in_array_ = false, after_value_ = false, at_end_ = false;
};

}  // namespace hearth::data
