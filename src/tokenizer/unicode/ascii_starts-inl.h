// Where the pieces of a pattern begin in 64 bytes of ASCII. For cutters.cpp alone, whose structures say the same for
// one piece of any text; the tests hold both against PCRE2.
//
// A window begins where a piece begins. Bits are in the order of the text, so `x << 1` is "the byte before is an x" and
// `x >> 1` "the byte behind is an x". A starts function may set any bit where the answer hangs on bytes that it does
// not see: from the window's end, or from a run of white space that reaches it; known_starts() takes those away.
#pragma once

#include <bit>
#include <cstdint>

#include "tokenizer/unicode/ascii_window.h"

namespace hearth::tokenizer {

constexpr uint64_t bits_below(unsigned n) { return n >= 64 ? ~uint64_t{0} : (uint64_t{1} << n) - 1; }

// The starts of the second piece and those behind it that nothing unseen can move.
inline uint64_t known_starts(const AsciiWindow& w, uint64_t starts) {
  const unsigned size = w.size();
  const uint64_t inside = bits_below(size);
  // Where the run of white space at the end begins; without one that is the end.
  const auto run = static_cast<unsigned>(64 - std::countl_zero(~w.white() & inside));
  return starts & inside & bits_below(run + 1) & ~uint64_t{1};
}

// The first of each run and every kMost-th behind it.
template <unsigned kMost>
uint64_t number_starts(uint64_t number) {
  if constexpr (kMost == 1) return number;
  uint64_t starts = number & ~(number << 1);
  uint64_t inside = number;  // and so are the kMost bytes before
  for (unsigned i = 1; i <= kMost; ++i) inside &= number << i;
  for (uint64_t next = starts; inside != 0 && (next = next << kMost & inside) != 0;) starts |= next;
  return starts;
}

// The white space that a newline of the same run follows, before which \s*[\r\n]+ does not stop.
inline uint64_t blank_before_newline(uint64_t blank, uint64_t newline) {
  uint64_t found = blank & newline >> 1;
  for (uint64_t more = found; more != 0; found |= more) more = more >> 1 & blank & ~found;
  return found;
}

// For each of the marks an apostrophe that begins a piece: end_of(place) is the end of its contraction, or the place.
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
uint64_t gpt2_starts(const AsciiWindow& w, const EndOf& end_of_contraction) {
  const uint64_t other = w.other(), white = w.white();
  const auto starts_of_run = [&](uint64_t run) { return run & ~(run << 1) & ~(w.space << 1); };
  const uint64_t other_starts = starts_of_run(other);
  uint64_t starts = starts_of_run(w.letter) | starts_of_run(w.number) | other_starts;
  starts |= white & (~(white << 1) | ~(white >> 1));  // the last one leads what follows, or is alone
  apply_contractions(other_starts & w.apostrophe, starts, end_of_contraction);
  return starts;
}

template <unsigned kMostNumbers, class EndOf>
uint64_t llama3_starts(const AsciiWindow& w, const EndOf& end_of_contraction) {
  const uint64_t other = w.other();
  // A space leads a run of others; a run's first, if no space leads it and a letter follows, leads the letters.
  const uint64_t other_starts = other & ~(other << 1) & ~(w.space << 1);
  const uint64_t leads = w.blank | other_starts;
  uint64_t starts =
      other_starts | number_starts<kMostNumbers>(w.number) | (w.letter & ~(w.letter << 1) & ~(leads << 1));
  // Newlines right behind others belong to them: adding to such a run's first bit carries through the run.
  const uint64_t taken = w.newline & ~(w.newline + (w.newline & other << 1));
  const uint64_t white = w.white() & ~taken;
  starts |= white & ~(white << 1);                                                 // a run
  starts |= w.blank & w.newline << 1 & ~blank_before_newline(w.blank, w.newline);  // what its last newline leaves
  starts |= w.blank & ~(w.white() >> 1);  // its last character: leads what follows, or is alone
  apply_contractions(other_starts & w.apostrophe, starts, end_of_contraction);
  return starts;
}

}  // namespace hearth::tokenizer
