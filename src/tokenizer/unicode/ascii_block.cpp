// SPDX-License-Identifier: Apache-2.0
#include "tokenizer/unicode/ascii_block.h"

// Highway with static dispatch, so the instruction set of the build. Choosing a wider one at run time needs Highway's
// shared library, which `hearth` does not use otherwise.
#include <hwy/highway.h>

namespace hearth::tokenizer {
namespace {

namespace hn = hwy::HWY_NAMESPACE;
using Bytes = hn::CappedTag<uint8_t, AsciiBlock::kBytes>;
using Vector = hn::Vec<Bytes>;
using Mask = hn::Mask<Bytes>;

// first <= byte <= last, as unsigned numbers.
HWY_INLINE Mask is_between(Vector bytes, uint8_t first, uint8_t last) {
  const Bytes d;
  const Vector distance = hn::Sub(bytes, hn::Set(d, first));
  return hn::Eq(hn::Min(distance, hn::Set(d, static_cast<uint8_t>(last - first))), distance);
}

HWY_INLINE void store(Mask mask, size_t at, uint64_t& bits) {
  hn::StoreMaskBits(Bytes(), mask, reinterpret_cast<uint8_t*>(&bits) + at / 8);
}

}  // namespace

AsciiBlock AsciiBlock::of(const char* text) {
  const Bytes d;
  AsciiBlock w;
  for (size_t at = 0; at < AsciiBlock::kBytes; at += hn::Lanes(d)) {
    const Vector bytes = hn::LoadU(d, reinterpret_cast<const uint8_t*>(text) + at);
    const Mask newline = hn::Or(hn::Eq(bytes, hn::Set(d, '\n')), hn::Eq(bytes, hn::Set(d, '\r')));
    const Mask space = hn::Eq(bytes, hn::Set(d, ' '));
    store(is_between(hn::Or(bytes, hn::Set(d, 0x20)), 'a', 'z'), at, w.letter);
    store(is_between(bytes, '0', '9'), at, w.number);
    store(newline, at, w.newline);
    store(hn::AndNot(newline, hn::Or(space, is_between(bytes, '\t', '\r'))), at, w.blank);
    store(space, at, w.space);
    store(hn::Eq(bytes, hn::Set(d, '\'')), at, w.apostrophe);
    store(is_between(bytes, 0x80, 0xFF), at, w.beyond);
  }
  return w;
}

}  // namespace hearth::tokenizer
