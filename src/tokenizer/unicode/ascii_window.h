// 64 bytes of text at once: what each is, as masks of one bit a byte. From them a few operations on words find where
// the pieces of a pattern begin (ascii_starts-inl.h), without a branch a byte.
#pragma once

#include <bit>
#include <cstddef>
#include <cstdint>

namespace hearth::tokenizer {

// Bit i tells of the byte i. A byte is in one of letter, number, newline, blank and beyond, or in none (punctuation,
// controls).
struct AsciiWindow {
  static constexpr size_t kBytes = 64;

  uint64_t letter, number;
  uint64_t newline;  // \r \n
  uint64_t blank;    // other white space: ' ' \t \v \f
  uint64_t space;    // ' '
  uint64_t apostrophe;
  uint64_t beyond;  // not ASCII

  // 64 bytes must be readable.
  static AsciiWindow of(const char* bytes);

  uint64_t white() const { return newline | blank; }
  uint64_t other() const { return ~(letter | number | newline | blank | beyond); }
  // How many bytes stand before the first that is not ASCII.
  unsigned size() const { return static_cast<unsigned>(std::countr_zero(beyond)); }
};

}  // namespace hearth::tokenizer
