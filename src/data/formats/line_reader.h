// Reads a stream line by line, in the memory of one line.
#pragma once

#include <cstdint>
#include <memory>
#include <string_view>
#include <vector>

#include "data/formats/byte_stream.h"

namespace hearth::data {

struct Line {
  int64_t position = 0;   // of its first byte in the stream
  std::string_view text;  // without its end ("\n" or "\r\n"); good until the next call
  bool too_long = false;  // then `text` is empty
};

class LineReader {
 public:
  // A line longer than max_bytes comes without its text. `position` is that of the stream's first byte.
  LineReader(std::unique_ptr<ByteStream> stream, int64_t max_bytes, int64_t position = 0);

  bool next(Line& line);  // false at the end. Throws the stream's errors
  int64_t bytes_read() const { return stream_->bytes_read() - static_cast<int64_t>(filled_ - begin_); }

 private:
  bool fill();  // appends more of the stream; false at the end

  std::unique_ptr<ByteStream> stream_;
  size_t max_bytes_;
  std::vector<char> buffer_;
  size_t begin_ = 0, filled_ = 0;  // range of the buffer that is not returned yet
  int64_t position_;               // of buffer_[begin_] in the stream
};

}  // namespace hearth::data
