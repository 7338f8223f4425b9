// SPDX-License-Identifier: Apache-2.0
// A class for each character of a text, with a fast path for ASCII. Only cutters.cpp includes this file.
#pragma once

#include <array>
#include <bit>
#include <cstdint>
#include <cstring>
#include <string_view>

#include "tokenizer/unicode/unicode.h"

namespace hearth::tokenizer {

// One bit for each class, so a set of classes is a mask.
enum : uint8_t {
  kUpper = 1,        // Lu, Lt
  kLower = 2,        // Ll
  kOtherLetter = 4,  // Lm, Lo
  kMark = 8,         // M
  kNumber = 16,      // N
  kNewline = 32,     // \r \n
  kSpace = 64,       // other White_Space
  kSymbol = 128,     // P, S
  kRest = 0,         // controls, unassigned, invalid bytes
};
inline constexpr uint8_t kLetter = kUpper | kLower | kOtherLetter, kWhite = kNewline | kSpace;
// The patterns' [^\s\p{L}\p{N}] is a character without any of these bits.
inline constexpr uint8_t kSpaceLetterNumber = kWhite | kLetter | kNumber;

struct Character {
  uint8_t kind;
  uint32_t length;  // in bytes; 0 at the end of the text, with kind kRest
};

constexpr uint8_t kind_of_class(unsigned unicode_class) {
  if ((unicode_class & kWhiteSpaceBit) != 0) return kSpace;
  const auto category = static_cast<Category>(unicode_class & kCategoryBits);
  if (category == Category::kLu || category == Category::kLt) return kUpper;
  if (category == Category::kLl) return kLower;
  if (category == Category::kLm || category == Category::kLo) return kOtherLetter;
  if (category >= Category::kMn && category <= Category::kMe) return kMark;
  if (category >= Category::kNd && category <= Category::kNo) return kNumber;
  if (category >= Category::kPc && category <= Category::kSo) return kSymbol;
  return kRest;
}

inline constexpr auto kKinds = [] {
  std::array<uint8_t, 64> kinds{};
  for (unsigned c = 0; c < 64; ++c) kinds[c] = kind_of_class(c);
  return kinds;
}();

inline constexpr auto kAsciiKinds = [] {
  std::array<uint8_t, 128> kinds{};
  for (unsigned c = 0; c < 128; ++c) {
    if (c >= 'A' && c <= 'Z')
      kinds[c] = kUpper;
    else if (c >= 'a' && c <= 'z')
      kinds[c] = kLower;
    else if (c >= '0' && c <= '9')
      kinds[c] = kNumber;
    else if (c == '\r' || c == '\n')
      kinds[c] = kNewline;
    else if (c == ' ' || (c >= 9 && c <= 12))
      kinds[c] = kSpace;
    else if (c > ' ' && c < 127)
      kinds[c] = kSymbol;
    else
      kinds[c] = kRest;
  }
  return kinds;
}();

class Characters {
 public:
  explicit Characters(std::string_view text) : text_(text) {}

  size_t size() const { return text_.size(); }
  unsigned char byte(size_t at) const { return static_cast<unsigned char>(text_[at]); }
  bool is(size_t at, char c) const { return at < text_.size() && text_[at] == c; }
  // Whether the eight bytes at `at`, which must be in the text, are ASCII.
  bool is_ascii8(size_t at) const {
    uint64_t bytes;
    std::memcpy(&bytes, text_.data() + at, sizeof bytes);
    return (bytes & 0x8080808080808080) == 0;
  }

  [[gnu::always_inline]] Character at(size_t at) const {
    if (at >= text_.size()) return {kRest, 0};
    if (byte(at) < 0x80) return {kAsciiKinds[byte(at)], 1};
    return beyond_ascii(at);
  }
  // The end of the longest run of characters with a bit of `mask`.
  size_t skip(size_t at, uint8_t mask) const {
    for (Character c; (c = this->at(at)).kind & mask; at += c.length) {
    }
    return at;
  }
  // The same for characters without any bit of `mask`.
  size_t skip_not(size_t at, uint8_t mask) const {
    for (Character c; (c = this->at(at)).length != 0 && (c.kind & mask) == 0; at += c.length) {
    }
    return at;
  }
  // skip(at, kLetter), eight ASCII letters at a time.
  [[gnu::always_inline]] size_t skip_letters(size_t at) const {
    while (at + 8 <= text_.size()) {
      const unsigned n = ascii_letters(at);
      at += n;
      if (n == 8) continue;
      if (byte(at) < 0x80) return at;
      break;
    }
    return skip(at, kLetter);
  }

 private:
  // The number of ASCII letters in the eight bytes at `at` before the first other byte.
  unsigned ascii_letters(size_t at) const {
    static_assert(std::endian::native == std::endian::little);
    constexpr uint64_t kOnes = 0x0101010101010101;
    uint64_t bytes;
    std::memcpy(&bytes, text_.data() + at, sizeof bytes);
    const uint64_t low = (bytes | 0x20 * kOnes) & 0x7F * kOnes;
    const uint64_t at_least_a = low + (0x80 - 'a') * kOnes, above_z = low + (0x80 - 'z' - 1) * kOnes;
    const uint64_t none = ~(at_least_a & ~above_z & ~bytes) & 0x80 * kOnes;
    return none == 0 ? 8 : static_cast<unsigned>(std::countr_zero(none)) / 8;
  }
  Character beyond_ascii(size_t at) const {
    const Decoded d = decode_utf8(text_, at);
    return {kKinds[class_of(d.c)], d.length};
  }

  std::string_view text_;
};

}  // namespace hearth::tokenizer
