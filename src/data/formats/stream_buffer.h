// SPDX-License-Identifier: Apache-2.0
// The part of a stream that a reader still needs, in memory and in one piece.
#pragma once

#include <cstdint>
#include <memory>
#include <string_view>
#include <vector>

#include "data/formats/byte_stream.h"

namespace hearth::data {

// UTF-8's byte order mark. Some programs of Windows put it before a text; it is not part of the text.
inline constexpr std::string_view kByteOrderMark = "\xef\xbb\xbf";

class StreamBuffer {
 public:
  // `position` is that of the stream's first byte.
  explicit StreamBuffer(std::unique_ptr<ByteStream> stream, int64_t position = 0);

  // The bytes in memory, from the first one that is still needed. Valid until the next call of fill().
  std::string_view held() const { return {buffer_.data() + begin_, filled_ - begin_}; }
  int64_t position() const { return position_; }  // of that byte in the stream
  bool fill();                                    // appends more of the stream; false at its end. Throws its errors
  void drop(size_t bytes);                        // the first ones are no longer needed
  void drop_byte_order_mark();                    // at the stream's first byte
  int64_t bytes_read() const { return stream_->bytes_read() - static_cast<int64_t>(filled_ - begin_); }

 private:
  std::unique_ptr<ByteStream> stream_;
  std::vector<char> buffer_;
  size_t begin_ = 0, filled_ = 0;  // range of the buffer that is still needed
  int64_t position_;               // of buffer_[begin_] in the stream
};

}  // namespace hearth::data
