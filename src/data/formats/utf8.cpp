#include "data/formats/utf8.h"

#include <cstddef>
#include <cstring>

namespace hearth::data {
namespace {

// Length of the well-formed sequence at `p`; 0 if the bytes start no such sequence.
size_t sequence_length(const unsigned char* p, size_t available) {
  const unsigned char lead = p[0];
  if (lead < 0x80) return 1;
  const size_t length = lead >= 0xC2 && lead <= 0xDF   ? 2
                        : (lead & 0xF0) == 0xE0        ? 3
                        : lead >= 0xF0 && lead <= 0xF4 ? 4
                                                       : 0;
  if (length == 0 || length > available) return 0;
  for (size_t i = 1; i < length; ++i) {
    if ((p[i] & 0xC0) != 0x80) return 0;
  }
  // The second byte excludes overlong forms, surrogates and values above U+10FFFF.
  if (lead == 0xE0 && p[1] < 0xA0) return 0;
  if (lead == 0xED && p[1] > 0x9F) return 0;
  if (lead == 0xF0 && p[1] < 0x90) return 0;
  if (lead == 0xF4 && p[1] > 0x8F) return 0;
  return length;
}

}  // namespace

int64_t count_invalid_utf8(std::string_view text) {
  const auto* p = reinterpret_cast<const unsigned char*>(text.data());
  int64_t invalid = 0;
  for (size_t i = 0; i < text.size();) {
    uint64_t eight = 0;
    if (text.size() - i >= sizeof eight) {  // most text is ASCII: eight bytes at a time
      std::memcpy(&eight, p + i, sizeof eight);
      if ((eight & 0x8080808080808080) == 0) {
        i += sizeof eight;
        continue;
      }
    }
    const size_t length = sequence_length(p + i, text.size() - i);
    if (length == 0) ++invalid;
    i += length == 0 ? 1 : length;
  }
  return invalid;
}

}  // namespace hearth::data
