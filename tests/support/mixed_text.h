// SPDX-License-Identifier: Apache-2.0
// Random text with everything that a tokenizer meets: all scripts, code, numbers, emoji, white space, marks, controls.
// It is the same for the same seed, on every machine.
#pragma once

#include <cstdint>
#include <iterator>
#include <string>
#include <string_view>

#include "base/random.h"
#include "tokenizer/unicode/unicode.h"

namespace hearth::test {

class MixedText {
 public:
  // With `invalid`, it has some bytes that are not UTF-8.
  explicit MixedText(uint64_t seed, bool invalid = false) : key_(random_key(seed, "mixed text")), invalid_(invalid) {}

  // At least `bytes`, and little more.
  std::string make(size_t bytes) {
    std::string text;
    while (text.size() < bytes) append_part(text);
    return text;
  }

 private:
  struct Range {
    char32_t first, last;
  };
  // The source of words' letters.
  static constexpr Range kScripts[] = {
      {'a', 'z'},         {'a', 'z'},         {'a', 'z'},         {'A', 'Z'},         {0xC0, 0x24F},
      {0x370, 0x3FF},     {0x400, 0x52F},     {0x531, 0x587},     {0x5B0, 0x5EA},     {0x610, 0x6FF},
      {0x710, 0x7B1},     {0x900, 0x97F},     {0x980, 0x9FE},     {0xB80, 0xBFA},     {0xE01, 0xE5B},
      {0xE80, 0xEDF},     {0xF00, 0xFDA},     {0x1000, 0x109F},   {0x10A0, 0x10FF},   {0x1100, 0x11FF},
      {0x1200, 0x139F},   {0x13A0, 0x13FD},   {0x1780, 0x17F9},   {0x1E00, 0x1FFE},   {0x2C00, 0x2DFF},
      {0x3040, 0x30FF},   {0x4E00, 0x9FFF},   {0x4E00, 0x5FFF},   {0xA000, 0xA4C6},   {0xAC00, 0xD7A3},
      {0xFB00, 0xFDFF},   {0xFE70, 0xFFDC},   {0x10000, 0x10FFF}, {0x11000, 0x11FFF}, {0x12000, 0x123FF},
      {0x16100, 0x16E9A}, {0x1D400, 0x1D7FF}, {0x1E900, 0x1E95F}, {0x20000, 0x2A6DF}, {0x2EBF0, 0x2EE5D}};

  uint64_t draw(uint64_t below) { return random_u64(key_, counter_++) % below; }
  template <size_t N>
  std::string_view pick(const std::string_view (&words)[N]) {
    return words[draw(N)];
  }
  void character(std::string& text, const Range& range) {
    char32_t c = range.first + static_cast<char32_t>(draw(range.last - range.first + 1));
    if (c >= 0xD800 && c <= 0xDFFF) c = 0xFFFD;
    tokenizer::append_utf8(c, text);
  }

  void append_word(std::string& text) {
    const Range& range = kScripts[draw(std::size(kScripts))];
    for (uint64_t n = 1 + draw(draw(8) == 0 ? 40 : 8); n > 0; --n) {
      character(text, range);
      if (draw(24) == 0) character(text, {0x300, 0x36F});
    }
  }
  void append_white(std::string& text) {
    static constexpr std::string_view kWhite[] = {
        " ",        " ",        " ",      " ",      "  ",     "\n",     "\r\n",   "\n\n", "\t",   "\r",   "\xC2\xA0",
        "\x0b\x0c", "\xC2\x85", "\u2003", "\u2028", "\u3000", "\u200b", "\u180e", "\x1c", " \n ", "    ", "\n        "};
    const std::string_view white = pick(kWhite);
    for (uint64_t n = draw(12) == 0 ? draw(60) : 1; n > 0; --n) text += white;
  }
  void append_number(std::string& text) {
    static constexpr Range kDigits[] = {{'0', '9'},         {'0', '9'},        {'0', '9'},   {0x660, 0x669},
                                        {0x966, 0x96F},     {0x2160, 0x2188},  {0xB2, 0xB3}, {0x2460, 0x249B},
                                        {0x1D7CE, 0x1D7FF}, {0x10D40, 0x10D49}};
    const Range& range = kDigits[draw(std::size(kDigits))];
    for (uint64_t n = 1 + draw(draw(10) == 0 ? 50 : 6); n > 0; --n) character(text, range);
  }
  void append_punctuation(std::string& text) {
    static constexpr std::string_view kMarks[] = {".",
                                                  ",",
                                                  "'",
                                                  "\"",
                                                  "-",
                                                  "(",
                                                  ")",
                                                  "://",
                                                  "...",
                                                  "!?",
                                                  "/",
                                                  "//",
                                                  "/*",
                                                  "*/",
                                                  "<|",
                                                  "|>",
                                                  "<|end_of_text|>",
                                                  "<|begin_of_text|>",
                                                  "\u2014",
                                                  "\u2019",
                                                  "\u201c",
                                                  "\u00bf",
                                                  "\u3002",
                                                  "\u060c",
                                                  "\u20ac",
                                                  "\u2192",
                                                  "\u2211",
                                                  "$",
                                                  "+=",
                                                  "==",
                                                  "{}",
                                                  "[0]",
                                                  "_",
                                                  "__",
                                                  "#",
                                                  "\\n",
                                                  "\xEF\xBB\xBF",
                                                  "&&",
                                                  ";\n",
                                                  ".\r\n",
                                                  "\n/",
                                                  "----------------",
                                                  "================================================================"};
    text += pick(kMarks);
  }
  void append_contraction(std::string& text) {
    static constexpr std::string_view kEnds[] = {"'s", "'t",  "'re", "'ve", "'m",      "'ll",     "'d", "'S",
                                                 "'T", "'RE", "'Ve", "'LL", "'lL",     "'\u017f", "'x", "''s",
                                                 "'l", "'r",  "'v",  " 's", "\u2019s", "'st"};
    if (draw(2) == 0) append_word(text);
    text += pick(kEnds);
  }
  void append_code(std::string& text) {
    static constexpr std::string_view kCode[] = {"def main(argc, argv):\n    return 0\n",
                                                 "for (size_t i = 0; i < n; ++i) {\n",
                                                 "std::vector<int64_t>",
                                                 "\tif x is None:\n\t\traise ValueError",
                                                 "https://example.org/a/b?c=1&d=%20",
                                                 "camelCaseName",
                                                 "SCREAMING_CASE_42",
                                                 "HTTPServerError2",
                                                 "0x7fff_ffff",
                                                 "1e-5f",
                                                 "a[i]->b.c",
                                                 "<div class=\"x\">\n\t</div>",
                                                 "SELECT * FROM t WHERE id=1;",
                                                 "x86_64-linux-gnu",
                                                 "lambda x: x**2",
                                                 "#include <cstdint>\r\n"};
    text += pick(kCode);
  }
  void append_emoji(std::string& text) {
    static constexpr std::string_view kEmoji[] = {"\U0001F600",
                                                  "\U0001F468\u200D\U0001F469\u200D\U0001F467",
                                                  "\U0001F44D\U0001F3FD",
                                                  "\U0001F1E9\U0001F1EA",
                                                  "\u2764\uFE0F",
                                                  "1\uFE0F\u20E3",
                                                  "\U0001F3F4\U000E0067\U000E0062\U000E007F",
                                                  "\U0001FAE9",
                                                  "\u00A9\uFE0F"};
    const std::string_view emoji = pick(kEmoji);
    for (uint64_t n = draw(10) == 0 ? draw(30) : 1; n > 0; --n) text += emoji;
  }
  void append_anything(std::string& text) {
    switch (draw(4)) {
      case 0:
        return character(text, {0, 0x10FFFF});
      case 1:
        return character(text, {0, 0xFFFF});
      case 2:
        return character(text, {0, 0x2FF});
      default:
        return character(text, {0, 0x7F});
    }
  }
  void append_invalid(std::string& text) {
    static constexpr std::string_view kInvalid[] = {"\xff",         "\x80",         "\xC3",     "\xE2\x82",
                                                    "\xF0\x9F\x98", "\xED\xA0\x80", "\xC0\xAF", "\xF4\x90\x80\x80"};
    text += pick(kInvalid);
  }
  void append_part(std::string& text) {
    if (invalid_ && draw(10) == 0) append_invalid(text);
    switch (draw(16)) {
      case 0:
      case 1:
      case 2:
      case 3:
        append_word(text);
        text += ' ';
        return;
      case 4:
      case 5:
        append_word(text);
        return;
      case 6:
      case 7:
      case 8:
        return append_white(text);
      case 9:
        return append_number(text);
      case 10:
      case 11:
        return append_punctuation(text);
      case 12:
        return append_contraction(text);
      case 13:
        return append_code(text);
      case 14:
        return append_emoji(text);
      default:
        return append_anything(text);
    }
  }

  RandomKey key_;
  bool invalid_;
  uint64_t counter_ = 0;
};

}  // namespace hearth::test
