// SPDX-License-Identifier: Apache-2.0
#include "data/formats/utf8.h"

#include <cstring>

#include "tokenizer/unicode/unicode.h"

namespace hearth::data {

int64_t count_invalid_utf8(std::string_view text) {
  int64_t invalid = 0;
  for (size_t i = 0; i < text.size();) {
    uint64_t eight = 0;
    if (text.size() - i >= sizeof eight) {  // most text is ASCII: eight bytes at a time
      std::memcpy(&eight, text.data() + i, sizeof eight);
      if ((eight & 0x8080808080808080) == 0) {
        i += sizeof eight;
        continue;
      }
    }
    const tokenizer::Decoded next = tokenizer::decode_utf8(text, i);
    if (next.c == tokenizer::kInvalidByte) ++invalid;
    i += next.length;
  }
  return invalid;
}

}  // namespace hearth::data
