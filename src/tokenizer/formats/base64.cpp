// SPDX-License-Identifier: Apache-2.0
#include "tokenizer/formats/base64.h"

#include <array>
#include <cstdint>

namespace hearth::tokenizer {
namespace {

constexpr auto kSextets = [] {
  constexpr std::string_view kAlphabet = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
  std::array<int, 256> sextets{};
  sextets.fill(-1);
  for (size_t i = 0; i < kAlphabet.size(); ++i) sextets[static_cast<uint8_t>(kAlphabet[i])] = static_cast<int>(i);
  return sextets;
}();

}  // namespace

bool decode_base64(std::string_view text, std::string& bytes) {
  bytes.clear();
  if (text.empty() || text.size() % 4 != 0) return false;
  const size_t padding = text.ends_with("==") ? 2 : text.ends_with("=") ? 1 : 0;
  uint32_t bits = 0;
  unsigned num_bits = 0;
  for (const char c : text.substr(0, text.size() - padding)) {
    const int sextet = kSextets[static_cast<uint8_t>(c)];
    if (sextet < 0) return false;
    bits = bits << 6 | static_cast<uint32_t>(sextet);
    num_bits += 6;
    if (num_bits < 8) continue;
    num_bits -= 8;
    bytes.push_back(static_cast<char>(bits >> num_bits & 255));
  }
  return (bits & ((1U << num_bits) - 1)) == 0;
}

}  // namespace hearth::tokenizer
