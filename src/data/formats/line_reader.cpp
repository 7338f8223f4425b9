// SPDX-License-Identifier: Apache-2.0
#include "data/formats/line_reader.h"

#include <cstring>

namespace hearth::data {

bool LineReader::next(Line& line) {
  line = {buffer_.position(), {}, false};
  size_t searched = 0;  // held bytes without a line end
  for (;;) {
    const std::string_view held = buffer_.held();
    const void* end = std::memchr(held.data() + searched, '\n', held.size() - searched);
    const size_t length =
        end == nullptr ? held.size() : static_cast<size_t>(static_cast<const char*>(end) - held.data());
    line.too_long = line.too_long || length > max_bytes_;
    if (end != nullptr) {
      if (!line.too_long) line.text = held.substr(0, length);
      buffer_.drop(length + 1);
      break;
    }
    searched = length;
    if (line.too_long) {  // its text is dropped
      buffer_.drop(length);
      searched = 0;
    }
    if (buffer_.fill()) continue;
    if (length == 0 && !line.too_long) return false;
    if (!line.too_long) {
      line.text = buffer_.held();
      buffer_.drop(line.text.size());
    }
    break;
  }
  if (line.text.ends_with('\r')) line.text.remove_suffix(1);
  return true;
}

}  // namespace hearth::data
