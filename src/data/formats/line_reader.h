// SPDX-License-Identifier: Apache-2.0
// Reads a stream line by line, in the memory of one line.
#pragma once

#include <cstdint>
#include <memory>
#include <string_view>

#include "data/formats/byte_stream.h"
#include "data/formats/stream_buffer.h"

namespace hearth::data {

struct Line {
  int64_t position = 0;   // of its first byte in the stream
  std::string_view text;  // without its end ("\n" or "\r\n"); good until the next call
  bool too_long = false;  // then `text` is empty
};

class LineReader {
 public:
  // A line longer than max_bytes comes without its text. `position` is that of the stream's first byte.
  LineReader(std::unique_ptr<ByteStream> stream, int64_t max_bytes, int64_t position = 0)
      : buffer_(std::move(stream), position), max_bytes_(static_cast<size_t>(max_bytes)) {}

  bool next(Line& line);  // false at the end. Throws the stream's errors
  int64_t bytes_read() const { return buffer_.bytes_read(); }

 private:
  StreamBuffer buffer_;
  size_t max_bytes_;
};

}  // namespace hearth::data
