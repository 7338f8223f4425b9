#include "data/formats/line_reader.h"

#include <algorithm>
#include <cstring>

namespace hearth::data {
namespace {
constexpr size_t kReadBytes = 1 << 20;
}

LineReader::LineReader(std::unique_ptr<ByteStream> stream, int64_t max_bytes, int64_t position)
    : stream_(std::move(stream)),
      max_bytes_(static_cast<size_t>(max_bytes)),
      buffer_(kReadBytes),
      position_(position) {}

bool LineReader::fill() {
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

bool LineReader::next(Line& line) {
  line = {position_, {}, false};
  size_t searched = 0;  // bytes after begin_ without a line end
  for (;;) {
    const char* from = buffer_.data() + begin_ + searched;
    const auto* end = static_cast<const char*>(std::memchr(from, '\n', filled_ - begin_ - searched));
    const size_t length = end == nullptr ? filled_ - begin_ : static_cast<size_t>(end - buffer_.data()) - begin_;
    line.too_long = line.too_long || length > max_bytes_;
    if (end != nullptr) {
      if (!line.too_long) line.text = {buffer_.data() + begin_, length};
      begin_ += length + 1;
      position_ += static_cast<int64_t>(length) + 1;
      break;
    }
    searched = length;
    if (line.too_long) {  // its text is dropped
      position_ += static_cast<int64_t>(length);
      begin_ = filled_;
      searched = 0;
    }
    if (fill()) continue;
    if (length == 0 && !line.too_long) return false;
    if (!line.too_long) line.text = {buffer_.data() + begin_, length};
    begin_ = filled_;
    position_ += static_cast<int64_t>(line.text.size());
    break;
  }
  if (line.text.ends_with('\r')) line.text.remove_suffix(1);
  return true;
}

}  // namespace hearth::data
