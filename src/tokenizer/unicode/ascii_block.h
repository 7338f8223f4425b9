// SPDX-License-Identifier: Apache-2.0
// The classes of 64 bytes of text, as masks of one bit for each byte. A few word operations on them give the starts of
// a pattern's pieces (ascii_starts-inl.h) without a branch for each byte.
#pragma once

#include <bit>
#include <cstddef>
#include <cstdint>

namespace hearth::tokenizer {

// Bit i is for byte i. A byte is in at most one of letter, number, newline, blank and beyond. Punctuation and controls
// are in none of these.
struct AsciiBlock {
  static constexpr size_t kBytes = 64;

  uint64_t letter, number;
  uint64_t newline;  // \r \n
  uint64_t blank;    // other white space: ' ' \t \v \f
  uint64_t space;    // ' '
  uint64_t apostrophe;
  uint64_t beyond;  // not ASCII

  // 64 bytes must be readable.
  static AsciiBlock of(const char* bytes);

  uint64_t white() const { return newline | blank; }
  uint64_t other() const { return ~(letter | number | newline | blank | beyond); }
  // The number of bytes before the first that is not ASCII.
  unsigned size() const { return static_cast<unsigned>(std::countr_zero(beyond)); }
};

}  // namespace hearth::tokenizer
