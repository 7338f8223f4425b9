// SPDX-License-Identifier: Apache-2.0
#include "tokenizer/unicode/unicode.h"

#include <fmt/format.h>

#include <algorithm>

namespace hearth::tokenizer {
namespace {

bool is_between(char32_t c, Category first, Category last) {
  const Category found = category(c);
  return found >= first && found <= last;
}

}  // namespace

bool is_letter(char32_t c) { return is_between(c, Category::kLu, Category::kLo); }
bool is_mark(char32_t c) { return is_between(c, Category::kMn, Category::kMe); }
bool is_number(char32_t c) { return is_between(c, Category::kNd, Category::kNo); }
bool is_punctuation(char32_t c) { return is_between(c, Category::kPc, Category::kPo); }
bool is_symbol(char32_t c) { return is_between(c, Category::kSm, Category::kSo); }

Decoded decode_utf8(std::string_view text, size_t at) {
  const auto* p = reinterpret_cast<const unsigned char*>(text.data()) + at;
  const size_t available = text.size() - at;
  const auto follows = [&](size_t i) { return i < available && (p[i] & 0xC0) == 0x80; };
  const char32_t lead = p[0];
  if (lead < 0x80) return {lead, 1};
  if (lead >= 0xC2 && lead <= 0xDF) {
    if (follows(1)) return {(lead & 0x1F) << 6 | (p[1] & 0x3FU), 2};
  } else if ((lead & 0xF0) == 0xE0) {
    if (follows(1) && follows(2)) {
      const char32_t c = (lead & 0x0F) << 12 | (p[1] & 0x3FU) << 6 | (p[2] & 0x3FU);
      if (c >= 0x800 && (c < 0xD800 || c > 0xDFFF)) return {c, 3};
    }
  } else if (lead >= 0xF0 && lead <= 0xF4) {
    if (follows(1) && follows(2) && follows(3)) {
      const char32_t c = (lead & 0x07) << 18 | (p[1] & 0x3FU) << 12 | (p[2] & 0x3FU) << 6 | (p[3] & 0x3FU);
      if (c >= 0x10000 && c < 0x110000) return {c, 4};
    }
  }
  return {kInvalidByte, 1};
}

size_t previous_character(std::string_view text, size_t end) {
  for (size_t back = 1; back <= std::min<size_t>(4, end); ++back) {
    const Decoded decoded = decode_utf8(text, end - back);
    if (decoded.length == back && decoded.c != kInvalidByte) return end - back;
  }
  return end - 1;
}

size_t skip_white_space(std::string_view text, size_t begin) {
  while (begin < text.size()) {
    const Decoded decoded = decode_utf8(text, begin);
    if (!is_white_space(decoded.c)) break;
    begin += decoded.length;
  }
  return begin;
}

size_t skip_white_space_back(std::string_view text, size_t end, size_t least) {
  while (end > least) {
    const size_t begin = previous_character(text, end);
    if (!is_white_space(decode_utf8(text, begin).c)) break;
    end = begin;
  }
  return std::max(end, least);
}

void append_utf8(char32_t c, std::string& text) {
  const auto push = [&](char32_t byte) { text.push_back(static_cast<char>(byte)); };
  if (c < 0x80) {
    push(c);
  } else if (c < 0x800) {
    push(0xC0 | c >> 6);
    push(0x80 | (c & 0x3F));
  } else if (c < 0x10000) {
    push(0xE0 | c >> 12);
    push(0x80 | (c >> 6 & 0x3F));
    push(0x80 | (c & 0x3F));
  } else {
    push(0xF0 | c >> 18);
    push(0x80 | (c >> 12 & 0x3F));
    push(0x80 | (c >> 6 & 0x3F));
    push(0x80 | (c & 0x3F));
  }
}

int64_t append_valid_utf8(std::string_view text, std::string& out) {
  int64_t replaced = 0;
  size_t valid_from = 0;
  for (size_t at = 0; at < text.size();) {
    const Decoded d = decode_utf8(text, at);
    if (d.c == kInvalidByte) {
      out.append(text, valid_from, at - valid_from);
      append_utf8(0xFFFD, out);
      valid_from = at + 1;
      ++replaced;
    }
    at += d.length;
  }
  out.append(text, valid_from);
  return replaced;
}

std::string punctuation_class() {
  std::string text = "[";
  for (size_t i = 0; i < unicode_tables::kNumPunctuation; ++i)
    text += fmt::format("\\x{{{:x}}}-\\x{{{:x}}}", uint32_t{unicode_tables::kPunctuation[2 * i]},
                        uint32_t{unicode_tables::kPunctuation[2 * i + 1]});
  return text + "]";
}

}  // namespace hearth::tokenizer
