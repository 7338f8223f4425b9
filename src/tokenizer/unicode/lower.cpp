// SPDX-License-Identifier: Apache-2.0
#include <algorithm>

#include "tokenizer/unicode/unicode.h"

namespace hearth::tokenizer {

namespace unicode_tables {
extern const char32_t kUpper[], kLower[];  // [kNumLower], kUpper sorted
extern const size_t kNumLower;
}  // namespace unicode_tables

namespace {

using namespace unicode_tables;

constexpr char32_t kDottedI = 0x130;  // the only character whose lower case is two characters

char32_t lower_of(char32_t c) {
  const char32_t* found = std::lower_bound(kUpper, kUpper + kNumLower, c);
  return found != kUpper + kNumLower && *found == c ? kLower[found - kUpper] : c;
}

}  // namespace

void append_lower(std::string_view text, std::string& out) {
  for (size_t at = 0; at < text.size();) {
    const char byte = text[at];
    if (static_cast<unsigned char>(byte) < 0x80) {
      out.push_back(byte >= 'A' && byte <= 'Z' ? static_cast<char>(byte + ('a' - 'A')) : byte);
      ++at;
      continue;
    }
    const Decoded d = decode_utf8(text, at);
    if (d.c == kInvalidByte)
      out.push_back(byte);
    else if (d.c == kDottedI)
      out += "i\xCC\x87";  // i and U+0307
    else
      append_utf8(lower_of(d.c), out);
    at += d.length;
  }
}

}  // namespace hearth::tokenizer
