// SPDX-License-Identifier: Apache-2.0
#include "tokenizer/unicode/byte_alphabet.h"

#include <array>

#include "tokenizer/unicode/unicode.h"

namespace hearth::tokenizer {
namespace {

constexpr char32_t kFirstExtra = 0x100;
constexpr size_t kNumExtra = 68;

constexpr bool is_itself(unsigned byte) {
  return (byte >= 0x21 && byte <= 0x7E) || (byte >= 0xA1 && byte <= 0xAC) || (byte >= 0xAE && byte <= 0xFF);
}

struct Alphabet {
  std::array<char32_t, 256> of_byte{};
  std::array<unsigned char, kNumExtra> of_extra{};
};

constexpr Alphabet make_alphabet() {
  Alphabet alphabet;
  size_t extra = 0;
  for (unsigned byte = 0; byte < 256; ++byte) {
    if (is_itself(byte)) {
      alphabet.of_byte[byte] = byte;
      continue;
    }
    alphabet.of_byte[byte] = static_cast<char32_t>(kFirstExtra + extra);
    alphabet.of_extra[extra++] = static_cast<unsigned char>(byte);
  }
  return alphabet;
}

constexpr Alphabet kAlphabet = make_alphabet();

}  // namespace

std::optional<std::string> bytes_of_alphabet(std::string_view text) {
  std::string bytes;
  for (size_t at = 0; at < text.size();) {
    const Decoded decoded = decode_utf8(text, at);
    at += decoded.length;
    if (decoded.c < kFirstExtra && is_itself(decoded.c))
      bytes += static_cast<char>(decoded.c);
    else if (decoded.c >= kFirstExtra && decoded.c < kFirstExtra + kNumExtra)
      bytes += static_cast<char>(kAlphabet.of_extra[decoded.c - kFirstExtra]);
    else
      return std::nullopt;
  }
  return bytes;
}

std::string alphabet_of_bytes(std::string_view bytes) {
  std::string text;
  for (const char byte : bytes) append_utf8(kAlphabet.of_byte[static_cast<unsigned char>(byte)], text);
  return text;
}

}  // namespace hearth::tokenizer
