// SPDX-License-Identifier: Apache-2.0
#include "data/formats/stream_buffer.h"

#include <cstring>

#include "base/error.h"

namespace hearth::data {
namespace {
constexpr size_t kReadBytes = 1 << 20;
}

StreamBuffer::StreamBuffer(std::unique_ptr<ByteStream> stream, int64_t position)
    : stream_(std::move(stream)), buffer_(kReadBytes), position_(position) {}

bool StreamBuffer::fill() {
  if (begin_ > 0) {
    std::memmove(buffer_.data(), buffer_.data() + begin_, filled_ - begin_);
    filled_ -= begin_;
    begin_ = 0;
  }
  if (filled_ == buffer_.size()) buffer_.resize(2 * buffer_.size());
  const size_t n = stream_->read(std::span(buffer_).subspan(filled_));
  filled_ += n;
  return n > 0;
}

void StreamBuffer::drop(size_t bytes) {
  HEARTH_CHECK(bytes <= filled_ - begin_);
  begin_ += bytes;
  position_ += static_cast<int64_t>(bytes);
}

void StreamBuffer::drop_byte_order_mark() {
  while (held().size() < kByteOrderMark.size() && fill()) {
  }
  if (held().starts_with(kByteOrderMark)) drop(kByteOrderMark.size());
}

}  // namespace hearth::data
