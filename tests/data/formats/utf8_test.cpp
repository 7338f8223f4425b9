// SPDX-License-Identifier: Apache-2.0
#include "data/formats/utf8.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

namespace hearth::data {
namespace {

// Every sequence of up to three bytes and a sample of four, compared with the inverse rule: decode, then check that the
// shortest encoding of the result is the input.
int64_t count_by_encoding(std::string_view text) {
  int64_t invalid = 0;
  for (size_t i = 0; i < text.size();) {
    bool good = false;
    for (size_t length = 1; length <= 4 && i + length <= text.size() && !good; ++length) {
      const auto byte = [&](size_t k) { return static_cast<uint32_t>(static_cast<unsigned char>(text[i + k])); };
      uint32_t point = length == 1 ? byte(0) : byte(0) & (0xFFu >> (length + 1));
      for (size_t k = 1; k < length; ++k) point = point << 6 | (byte(k) & 0x3F);
      std::vector<uint32_t> code;
      if (point < 0x80) {
        code = {point};
      } else if (point < 0x800) {
        code = {0xC0 | point >> 6, 0x80 | (point & 0x3F)};
      } else if (point < 0x10000) {
        code = {0xE0 | point >> 12, 0x80 | (point >> 6 & 0x3F), 0x80 | (point & 0x3F)};
      } else {
        code = {0xF0 | point >> 18, 0x80 | (point >> 12 & 0x3F), 0x80 | (point >> 6 & 0x3F), 0x80 | (point & 0x3F)};
      }
      bool same = code.size() == length;
      for (size_t k = 0; same && k < length; ++k) same = code[k] == byte(k);
      const bool scalar = point <= 0x10FFFF && (point < 0xD800 || point > 0xDFFF);
      if (scalar && same) {
        i += length;
        good = true;
      }
    }
    if (!good) {
      ++invalid;
      ++i;
    }
  }
  return invalid;
}

TEST(Utf8, CountsWhatIsNotTheShortestEncodingOfACharacter) {
  std::string text(3, '\0');
  for (int first = 0x7E; first < 256; ++first) {
    for (int second = 0x7E; second < 256; second += second < 0xC1 ? 1 : 9) {
      for (const int third : {0x00, 0x41, 0x7F, 0x80, 0x9F, 0xA0, 0xBF, 0xC0, 0xC2, 0xE0, 0xFF}) {
        text = {static_cast<char>(first), static_cast<char>(second), static_cast<char>(third)};
        for (const char* tail : {"", "\x80", "a", "\xbf\x80", "abcdefghij"}) {
          ASSERT_EQ(count_invalid_utf8(text + tail), count_by_encoding(text + tail))
              << first << " " << second << " " << third << " " << tail;
        }
      }
    }
  }
}

std::string encoded(uint32_t c) {
  const auto last = [c](int shift) { return static_cast<char>(0x80 | (c >> shift & 0x3F)); };
  if (c < 0x80) return {static_cast<char>(c)};
  if (c < 0x800) return {static_cast<char>(0xC0 | c >> 6), last(0)};
  if (c < 0x10000) return {static_cast<char>(0xE0 | c >> 12), last(6), last(0)};
  return {static_cast<char>(0xF0 | c >> 18), last(12), last(6), last(0)};
}

// Eight bytes are read at a time: characters, whole and in parts, at places around their borders.
TEST(Utf8, CharactersMayBeAnywhereInALongText) {
  for (uint32_t c = 0; c <= 0x10FFFF; c += c < 0x3000 || (c > 0xD700 && c < 0xE100) ? 1 : 61) {
    const bool scalar = c < 0xD800 || c > 0xDFFF;
    const std::string code = encoded(c), before(c % 17, 'x'), after(c % 13, 'y');
    const std::string text = before + code + code + after + code;
    ASSERT_EQ(count_invalid_utf8(text), scalar ? 0 : 9) << c;
    if (code.size() == 1) continue;
    const std::string head = code.substr(0, 1), rest = code.substr(1);
    for (const std::string& cut :
         {before + code + code.substr(0, code.size() - 1) + after + code, before + rest + code + after, text + head,
          before + head + std::string(16, 'z') + rest})  // eight bytes of ASCII do not make it whole
      ASSERT_EQ(count_invalid_utf8(cut), count_by_encoding(cut)) << c;
  }
}

// Good and bad parts in every order, long and short: counting begins again after each of them.
TEST(Utf8, InvalidBytesAreCountedWhereverTheyStand) {
  const std::vector<std::string> parts = {"a",
                                          "plain words of ASCII ",
                                          "\xc3\xa9",
                                          "\xe4\xb8\x96\xe7\x95\x8c",
                                          "\xf0\x9f\x98\x80",
                                          "\xe9",
                                          "\xf0\x9f",
                                          "\x80\x80\x80",
                                          "\xed\xa0\x80",
                                          "\xff"};
  uint32_t random = 1;
  for (int round = 0; round < 20000; ++round) {
    std::string text;
    for (int k = 0; k < 12; ++k) text += parts[((random = random * 1664525 + 1013904223) >> 16) % parts.size()];
    ASSERT_EQ(count_invalid_utf8(text), count_by_encoding(text)) << round;
  }
}

TEST(Utf8, KnownCases) {
  EXPECT_EQ(count_invalid_utf8(""), 0);
  EXPECT_EQ(count_invalid_utf8("plain ASCII that is longer than eight bytes"), 0);
  EXPECT_EQ(count_invalid_utf8("\xe2\x82\xac\xf0\x9f\x98\x80"), 0);
  EXPECT_EQ(count_invalid_utf8("\xc0\x80"), 2);          // overlong
  EXPECT_EQ(count_invalid_utf8("\xed\xa0\x80"), 3);      // a surrogate
  EXPECT_EQ(count_invalid_utf8("\xf4\x90\x80\x80"), 4);  // above U+10FFFF
  EXPECT_EQ(count_invalid_utf8("abc\xe2\x82"), 2);       // cut short
}

}  // namespace
}  // namespace hearth::data
