// SPDX-License-Identifier: Apache-2.0
#include "data/formats/utf8.h"

#include <array>
#include <cstring>

#include "tokenizer/unicode/unicode.h"

namespace hearth::data {
namespace {

// Table 3-7 as an automaton: what may follow the bytes so far. kE0 to kF4: the byte after it has a narrower range.
enum State : unsigned { kBetween, kOneMore, kTwoMore, kThreeMore, kE0, kED, kF0, kF4, kInvalid, kNumStates };

constexpr State after(unsigned state, unsigned byte) {
  const auto then = [byte](unsigned first, unsigned last, State next) {
    return byte >= first && byte <= last ? next : kInvalid;
  };
  switch (state) {
    case kBetween:
      return byte <= 0x7F   ? kBetween
             : byte < 0xC2  ? kInvalid
             : byte <= 0xDF ? kOneMore
             : byte == 0xE0 ? kE0
             : byte == 0xED ? kED
             : byte <= 0xEF ? kTwoMore
             : byte == 0xF0 ? kF0
             : byte <= 0xF3 ? kThreeMore
             : byte == 0xF4 ? kF4
                            : kInvalid;
    case kOneMore:
      return then(0x80, 0xBF, kBetween);
    case kTwoMore:
      return then(0x80, 0xBF, kOneMore);
    case kThreeMore:
      return then(0x80, 0xBF, kTwoMore);
    case kE0:
      return then(0xA0, 0xBF, kOneMore);
    case kED:
      return then(0x80, 0x9F, kOneMore);
    case kF0:
      return then(0x90, 0xBF, kTwoMore);
    case kF4:
      return then(0x80, 0x8F, kTwoMore);
    default:
      return kInvalid;
  }
}

// For each byte six bits a state: where the next state's bits are. So a step is one shift by the state, which waits for
// no memory but the entry of the byte (Per Vognsen, "Shift-based DFAs", 2020).
constexpr uint64_t kBits = 6;
constexpr std::array<uint64_t, 256> kNext = [] {
  std::array<uint64_t, 256> table{};
  for (unsigned byte = 0; byte < 256; ++byte)
    for (unsigned state = 0; state < kNumStates; ++state) table[byte] |= kBits * after(state, byte) << (kBits * state);
  return table;
}();

// The length of a prefix of whole characters: all of the text, or up to some character before the first invalid byte.
size_t valid_prefix(std::string_view text) {
  uint64_t state = 0;  // the lowest six bits count
  const auto at = [&](State s) { return (state & 63) == kBits * s; };
  const auto step = [&](size_t i) { state = kNext[static_cast<unsigned char>(text[i])] >> (state & 63); };
  size_t i = 0, whole = 0;
  for (uint64_t eight = 0; i + sizeof eight <= text.size(); i += sizeof eight) {
    std::memcpy(&eight, text.data() + i, sizeof eight);
    if (at(kBetween)) {
      whole = i;
      if ((eight & 0x8080808080808080) == 0) continue;  // most text is ASCII
    }
    for (size_t k = 0; k < sizeof eight; ++k) step(i + k);
    if (at(kInvalid)) return whole;
  }
  if (at(kBetween)) whole = i;
  for (; i < text.size(); ++i) step(i);
  return at(kBetween) ? i : whole;
}

}  // namespace

int64_t count_invalid_utf8(std::string_view text) {
  int64_t invalid = 0;
  for (size_t i = 0; i < text.size();) {
    i += valid_prefix(text.substr(i));
    // To the end of the invalid bytes: they often come several together.
    for (bool found = false; i < text.size();) {
      const tokenizer::Decoded next = tokenizer::decode_utf8(text, i);
      const bool is_invalid = next.c == tokenizer::kInvalidByte;
      if (found && !is_invalid) break;
      found = is_invalid;
      invalid += is_invalid ? 1 : 0;
      i += next.length;
    }
  }
  return invalid;
}

}  // namespace hearth::data
