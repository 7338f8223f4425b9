// SPDX-License-Identifier: Apache-2.0
#include "tokenizer/pretokenizer/meta_cuts.h"

#include <algorithm>
#include <bit>
#include <cstdint>
#include <cstring>

#include "tokenizer/unicode/unicode.h"

namespace hearth::tokenizer {
namespace {

bool continues(char c) { return (static_cast<unsigned char>(c) & 0xC0) == 0x80; }

// The place after `count` characters from `begin`; npos if the text has fewer.
size_t skip_characters(std::string_view text, size_t begin, size_t count) {
  size_t at = begin;
  while (count >= 8 && at + 8 <= text.size()) {  // eight bytes begin at most eight characters
    uint64_t bytes;
    std::memcpy(&bytes, text.data() + at, sizeof bytes);
    const uint64_t continuing = bytes >> 7 & ~bytes >> 6 & 0x0101010101010101;
    count -= 8 - static_cast<size_t>(std::popcount(continuing));
    at += 8;
  }
  for (; at < text.size(); ++at) {
    if (continues(text[at])) continue;
    if (count == 0) return at;
    --count;
  }
  return count == 0 ? at : std::string_view::npos;
}

// Whether the character at `at` is white space in Python.
bool is_space(std::string_view text, size_t at) {
  const char32_t c = decode_utf8(text, at).c;
  return is_white_space(c) || (c >= 0x1C && c <= 0x1F);
}

size_t character_before(std::string_view text, size_t at, size_t floor) {
  do {
    --at;
  } while (at > floor && continues(text[at]));
  return at;
}

// The last start of a run in (begin, end); `begin` if one run covers all of it.
size_t last_change(std::string_view text, size_t begin, size_t end) {
  size_t at = character_before(text, end, begin);
  const bool space = is_space(text, at);
  while (at > begin) {
    const size_t before = character_before(text, at, begin);
    if (is_space(text, before) != space) return at;
    at = before;
  }
  return begin;
}

}  // namespace

size_t MetaCuts::next(size_t begin) {
  if (begin >= part_end_) {
    part_end_ = std::min(text_.size(), skip_characters(text_, begin, kMetaPartCharacters));
    run_begin_ = begin;
  }
  const std::string_view part = text_.substr(0, part_end_);
  // A run that is too long has more bytes than kMetaRunCharacters, so only its possible ends are examined.
  while (part_end_ - run_begin_ > kMetaRunCharacters) {
    const size_t change = last_change(part, run_begin_, run_begin_ + kMetaRunCharacters);
    if (change != run_begin_) {
      run_begin_ = change;
      continue;
    }
    const size_t cut = skip_characters(part, run_begin_, kMetaRunCharacters);
    const bool space = is_space(part, run_begin_);
    size_t at = run_begin_;
    while (at < part_end_ && at != cut && (continues(part[at]) || is_space(part, at) == space)) ++at;
    run_begin_ = at;
    if (at == cut && at < part_end_ && is_space(part, at) == space) return at;
  }
  return part_end_;
}

size_t last_meta_part_end(std::string_view text, size_t limit) {
  size_t end = 0;
  for (size_t next = 0; (next = skip_characters(text, end, kMetaPartCharacters)) <= limit && next != end;) end = next;
  return end;
}

}  // namespace hearth::tokenizer
