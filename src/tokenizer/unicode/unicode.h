// SPDX-License-Identifier: Apache-2.0
// UTF-8, general categories, white space, normalization forms and lower case, of fixed Unicode versions.
//
// The tables are generated at build time (cmake/unicode_tables.py) from the distribution's Unicode data. They do not
// depend on the data's version. The versions are those of the references: `tokenizers` 0.23 and tiktoken 0.14 both cut
// by Unicode 16.0. `tokenizers` normalizes by 9.0, and has the lower case of 17.0. Characters assigned later count as
// unassigned, as in the references.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

namespace hearth::tokenizer {

inline constexpr std::string_view kUnicodeVersion = "16.0", kNormalFormVersion = "9.0", kLowerVersion = "17.0";

// UAX #44, table 12. The generator writes this order.
// clang-format off
enum class Category : uint8_t {
  kCn,
  kLu, kLl, kLt, kLm, kLo,
  kMn, kMc, kMe,
  kNd, kNl, kNo,
  kPc, kPd, kPs, kPe, kPi, kPf, kPo,
  kSm, kSc, kSk, kSo,
  kZs, kZl, kZp,
  kCc, kCf, kCs, kCo,
};
// clang-format on
// One byte for each code point: the category in the low five bits, White_Space in bit 5.
inline constexpr uint8_t kCategoryBits = 31, kWhiteSpaceBit = 32;

// A byte outside of any well-formed sequence counts as one character of this value, with category Cn. It is neither
// letter nor number, mark, punctuation, symbol or white space.
inline constexpr char32_t kInvalidByte = 0xFFFFFFFF;

namespace unicode_tables {  // generated
inline constexpr unsigned kBlockBits = 7;
extern const uint16_t kClassBlocks[0x110000 >> kBlockBits];
extern const uint8_t kClasses[];       // [blocks << kBlockBits]
extern const char32_t kPunctuation[];  // first and last of each range
extern const size_t kNumPunctuation;
}  // namespace unicode_tables

// Category and White_Space of a code point, or of kInvalidByte.
inline uint8_t class_of(char32_t c) {
  if (c >= 0x110000) return 0;
  const unsigned block = unicode_tables::kClassBlocks[c >> unicode_tables::kBlockBits];
  return unicode_tables::kClasses[(block << unicode_tables::kBlockBits) +
                                  (c & ((1U << unicode_tables::kBlockBits) - 1))];
}
inline Category category(char32_t c) { return static_cast<Category>(class_of(c) & kCategoryBits); }
inline bool is_white_space(char32_t c) { return (class_of(c) & kWhiteSpaceBit) != 0; }
bool is_letter(char32_t c);       // L*
bool is_mark(char32_t c);         // M*
bool is_number(char32_t c);       // N*
bool is_punctuation(char32_t c);  // P*
bool is_symbol(char32_t c);       // S*

struct Decoded {
  char32_t c;
  uint32_t length;
};
// The character at `text[at]`, at < text.size(). Well-formed means Unicode's table 3-7: no overlong form, no surrogate,
// nothing above U+10FFFF. Anything else is kInvalidByte of length 1.
Decoded decode_utf8(std::string_view text, size_t at);
// The start of the character that ends at `end`, 0 < end; end - 1 if no well-formed character ends there.
size_t previous_character(std::string_view text, size_t end);
// The end of the white space that begins at `begin`.
size_t skip_white_space(std::string_view text, size_t begin);
// The start of the white space that ends at `end`; at least `least`.
size_t skip_white_space_back(std::string_view text, size_t end, size_t least);
void append_utf8(char32_t c, std::string& text);
// Appends `text` with U+FFFD for every invalid byte; returns the number of invalid bytes.
int64_t append_valid_utf8(std::string_view text, std::string& out);

enum class NormalForm { kNfc, kNfd, kNfkc, kNfkd };
// Whether the form certainly leaves `text` unchanged (quick check, UAX #15). False means unknown.
bool is_surely_normal(NormalForm form, std::string_view text);
// Appends this form of `text` (UAX #15). Invalid bytes stay, and nothing is composed across them.
void append_normal(NormalForm form, std::string_view text, std::string& out);
// Whether `tokenizers` removes the character as an accent: category M* in Unicode 9.0, with three exceptions.
bool is_mark_of_normalizers(char32_t c);
// What its BertNormalizer takes for accents, and for controls: categories Mn, and Cc, Cf and Co, in Unicode 8.0.
bool is_nonspacing_of_bert(char32_t c);
bool is_other_of_bert(char32_t c);
// What its Punctuation and BertPreTokenizer cut at, as a class of a regular expression: category P* in Unicode 8.0, and
// what ASCII has besides: $ + < = > ^ ` | ~
std::string punctuation_class();

// Appends `text` with each character's own lower case: without rules for context, such as the final sigma, and without
// rules for languages. Invalid bytes stay.
void append_lower(std::string_view text, std::string& out);

}  // namespace hearth::tokenizer
