// SPDX-License-Identifier: Apache-2.0
#include "tokenizer/unicode/graphemes.h"

#include "tokenizer/unicode/unicode.h"

namespace hearth::tokenizer {

namespace unicode_tables {
extern const uint16_t kGraphemeBlocks[0x110000 >> kBlockBits];
extern const uint8_t kGraphemes[];
}  // namespace unicode_tables

namespace {

using namespace unicode_tables;

// The order of GRAPHEME_CLASSES in cmake/unicode_tables.py. Linker, Consonant and the two joiners are classes of their
// own for rule GB9c. Linkers and both joiners extend a cluster like Extend.
// clang-format off
enum class Class : uint8_t {
  kOther, kCr, kLf, kControl,
  kL, kV, kT, kLv, kLvt,  // of Hangul
  kRegional, kPrepend, kLinker, kJoiner, kNonJoiner, kSpacing, kExtend, kConsonant, kPictograph,
};
// clang-format on

Class class_at(char32_t c) {
  if (c >= 0x110000) return Class::kControl;
  const unsigned block = kGraphemeBlocks[c >> kBlockBits];
  return static_cast<Class>(kGraphemes[(block << kBlockBits) + (c & ((1U << kBlockBits) - 1))]);
}

bool is_extend(Class c) { return c == Class::kExtend || c == Class::kLinker || c == Class::kNonJoiner; }

// What the rules need to know about a cluster so far, besides its last character.
struct Cluster {
  Class last;
  bool odd_regional;       // an odd number of regional indicators at its end
  bool pictograph;         // it ends in a pictograph and Extend*, or these and a joiner (GB11)
  bool consonant, linker;  // it ends in a consonant and (Extend or Linker)*, with a Linker among these (GB9c)

  explicit Cluster(Class first)
      : last(first),
        odd_regional(first == Class::kRegional),
        pictograph(first == Class::kPictograph),
        consonant(first == Class::kConsonant),
        linker(false) {}

  bool takes(Class next) const {
    using enum Class;
    if (last == kCr) return next == kLf;
    if (last == kControl || last == kLf || next == kControl || next == kCr || next == kLf) return false;
    if (last == kL && (next == kL || next == kV || next == kLv || next == kLvt)) return true;
    if ((last == kLv || last == kV) && (next == kV || next == kT)) return true;
    if ((last == kLvt || last == kT) && next == kT) return true;
    if (is_extend(next) || next == kJoiner || next == kSpacing || last == kPrepend) return true;
    if (linker && next == kConsonant) return true;
    if (pictograph && last == kJoiner && next == kPictograph) return true;
    return odd_regional && next == kRegional;
  }

  void add(Class next) {
    using enum Class;
    odd_regional = next == kRegional && !odd_regional;
    pictograph = next == kPictograph || (pictograph && last != kJoiner && (is_extend(next) || next == kJoiner));
    const bool goes_on = next == kExtend || next == kLinker || next == kJoiner;
    linker = consonant && goes_on && (linker || next == kLinker);
    consonant = next == kConsonant || (consonant && goes_on);
    last = next;
  }
};

}  // namespace

size_t grapheme_end(std::string_view text, size_t at) {
  Decoded d = decode_utf8(text, at);
  Cluster cluster(class_at(d.c));
  for (at += d.length; at < text.size(); at += d.length) {
    d = decode_utf8(text, at);
    const Class next = class_at(d.c);
    if (!cluster.takes(next)) break;
    cluster.add(next);
  }
  return at;
}

}  // namespace hearth::tokenizer
