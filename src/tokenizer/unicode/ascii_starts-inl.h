// SPDX-License-Identifier: Apache-2.0
// The starts of a pattern's pieces in 64 bytes of ASCII. Only cutters.cpp includes this file. Its structures give the
// same result for one piece of any text. The tests compare both with PCRE2.
//
// A window begins at the start of a piece. Bits are in the order of the text: `x << 1` means "the byte before is an x"
// and `x >> 1` "the next byte is an x". A starts function may set wrong bits if they depend on bytes outside the
// window: at its end, or in a run of white space that reaches it. known_starts() removes those bits.
#pragma once

#include <bit>
#include <cstdint>

#include "tokenizer/unicode/ascii_block.h"

namespace hearth::tokenizer {

constexpr uint64_t bits_below(unsigned n) { return n >= 64 ? ~uint64_t{0} : (uint64_t{1} << n) - 1; }

// The starts after the first one that do not depend on bytes outside the window.
inline uint64_t known_starts(const AsciiBlock& w, uint64_t starts) {
  const unsigned size = w.size();
  const uint64_t inside = bits_below(size);
  // The start of the run of white space at the window's end; the end if there is no such run.
  const auto run = static_cast<unsigned>(64 - std::countl_zero(~w.white() & inside));
  return starts & inside & bits_below(run + 1) & ~uint64_t{1};
}

// The start of each run, and every kMost-th number character after it.
template <unsigned kMost>
uint64_t number_starts(uint64_t number) {
  if constexpr (kMost == 1) return number;
  uint64_t starts = number & ~(number << 1);
  uint64_t inside = number;  // bytes whose kMost previous bytes are numbers, too
  for (unsigned i = 1; i <= kMost; ++i) inside &= number << i;
  for (uint64_t next = starts; inside != 0 && (next = next << kMost & inside) != 0;) starts |= next;
  return starts;
}

// The white space before a newline of the same run; \s*[\r\n]+ does not stop before it.
inline uint64_t blank_before_newline(uint64_t blank, uint64_t newline) {
  uint64_t found = blank & newline >> 1;
  for (uint64_t more = found; more != 0; found |= more) more = more >> 1 & blank & ~found;
  return found;
}

// For each apostrophe that begins a piece: end_of(place) is the end of its contraction, or `place` if it begins no
// contraction.
template <class EndOf>
void apply_contractions(uint64_t apostrophes, uint64_t& starts, const EndOf& end_of) {
  for (; apostrophes != 0; apostrophes &= apostrophes - 1) {
    const auto place = static_cast<unsigned>(std::countr_zero(apostrophes));
    const uint64_t end = end_of(place);
    if (end == place) continue;
    starts &= ~(uint64_t{1} << place << 1);
    if (end < 64) starts |= uint64_t{1} << end;
  }
}

template <class EndOf>
uint64_t gpt2_starts(const AsciiBlock& w, const EndOf& end_of_contraction) {
  const uint64_t other = w.other(), white = w.white();
  const auto starts_of_run = [&](uint64_t run) { return run & ~(run << 1) & ~(w.space << 1); };
  const uint64_t other_starts = starts_of_run(other);
  uint64_t starts = starts_of_run(w.letter) | starts_of_run(w.number) | other_starts;
  starts |= white & (~(white << 1) | ~(white >> 1));  // first and last: the last joins the next piece, or is alone
  apply_contractions(other_starts & w.apostrophe, starts, end_of_contraction);
  return starts;
}

template <unsigned kMostNumbers, class EndOf>
uint64_t llama3_starts(const AsciiBlock& w, const EndOf& end_of_contraction) {
  const uint64_t other = w.other();
  // A space begins the piece of a run of others. Otherwise the run's first character joins the letters that follow it.
  const uint64_t other_starts = other & ~(other << 1) & ~(w.space << 1);
  const uint64_t leads = w.blank | other_starts;
  uint64_t starts =
      other_starts | number_starts<kMostNumbers>(w.number) | (w.letter & ~(w.letter << 1) & ~(leads << 1));
  // Newlines directly after others belong to them. Adding to the run's first bit carries through the run.
  const uint64_t taken = w.newline & ~(w.newline + (w.newline & other << 1));
  const uint64_t white = w.white() & ~taken;
  starts |= white & ~(white << 1);                                                 // a run
  starts |= w.blank & w.newline << 1 & ~blank_before_newline(w.blank, w.newline);  // the rest after its last newline
  starts |= w.blank & ~(w.white() >> 1);  // its last character: belongs to the next piece, or is a piece alone
  apply_contractions(other_starts & w.apostrophe, starts, end_of_contraction);
  return starts;
}

}  // namespace hearth::tokenizer
