// Lines of a stream, in the memory of one line.
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
  // A longer line than max_bytes is passed over. The stream's first byte has `position`.
  LineReader(std::unique_ptr<ByteStream> stream, int64_t max_bytes, int64_t position = 0);

  bool next(Line& line);  // false at the end. Throws what the stream throws
  int64_t bytes_read() const { return stream_->bytes_read() - static_cast<int64_t>(filled_ - begin_); }

 private:
  bool fill();  // more of the stream behind what is there; false at the end

  std::unique_ptr<ByteStream> stream_;
  size_t max_bytes_;
  std::vector<char> buffer_;
  size_t begin_ = 0, filled_ = 0;  // of the buffer: what is not given out yet
  int64_t position_;               // of buffer_[begin_] in the stream
};

}  // namespace hearth::data
