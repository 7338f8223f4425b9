// SPDX-License-Identifier: Apache-2.0
#include "tokenizer/pretokenizer/cutters.h"

#include <iterator>

#include "tokenizer/pretokenizer/pretokenizer.h"
#include "tokenizer/unicode/ascii_starts-inl.h"
#include "tokenizer/unicode/characters-inl.h"

namespace hearth::tokenizer {

namespace {

// ---- parts that patterns share. Each takes the start of a piece and returns its end.

// The end of a contraction ('s 't 'm 'd 're 've 'll) at `at`, or `at` without one. With (?i), U+017F, the long s,
// counts as an s.
template <bool kAnyCase>
size_t skip_contraction(const Characters& text, size_t at) {
  if (!text.is(at, '\'') || at + 1 >= text.size()) return at;
  const auto letter = [&](size_t i) {
    return i < text.size()
               ? static_cast<unsigned char>(kAnyCase && text.byte(i) < 0x80 ? text.byte(i) | 0x20 : text.byte(i))
               : static_cast<unsigned char>(0);
  };
  const unsigned char first = letter(at + 1), second = letter(at + 2);
  if (first == 's' || first == 't' || first == 'm' || first == 'd') return at + 2;
  if ((first == 'r' && second == 'e') || (first == 'v' && second == 'e') || (first == 'l' && second == 'l'))
    return at + 3;
  if (kAnyCase && first == 0xC5 && second == 0xBF) return at + 3;
  return at;
}

// \s*[\r\n]+|\s+(?!\S)|\s+ : the end of the run's last newline; else the run without its last character, which belongs
// to the next piece; else the run. Without kNewlines the first alternative is missing.
template <bool kNewlines>
size_t skip_white(const Characters& text, const size_t begin) {
  size_t at = begin, last = begin, after_newline = begin;
  for (Character c; (c = text.at(at)).kind & kWhite;) {
    last = at;
    at += c.length;
    if (c.kind & kNewline) after_newline = at;
  }
  if (kNewlines && after_newline > begin) return after_newline;
  return at == text.size() || last == begin ? at : last;
}

template <unsigned kMost>
size_t skip_numbers(const Characters& text, size_t at) {
  for (unsigned i = 0; i < kMost; ++i) {
    const Character c = text.at(at);
    if ((c.kind & kNumber) == 0) break;
    at += c.length;
  }
  return at;
}

size_t skip_newlines(const Characters& text, size_t at, bool and_slashes = false) {
  while (at < text.size() && (text.byte(at) == '\n' || text.byte(at) == '\r' || (and_slashes && text.byte(at) == '/')))
    ++at;
  return at;
}

// ---- one structure for each pattern. end_of_piece(text, begin) needs a character at `begin`. Some also have starts(w,
// text, begin) for the window at `begin`, described in ascii_starts-inl.h.

template <bool kAnyCase>
auto contractions(const Characters& text, size_t begin) {
  return [&text, begin](unsigned place) { return skip_contraction<kAnyCase>(text, begin + place) - begin; };
}

struct Gpt2 {
  static uint64_t starts(const AsciiBlock& w, const Characters& text, size_t begin) {
    return gpt2_starts(w, contractions<false>(text, begin));
  }
  static size_t end_of_piece(const Characters& text, size_t begin) {
    if (text.is(begin, '\'')) {
      if (const size_t end = skip_contraction<false>(text, begin); end != begin) return end;
    }
    size_t at = begin;
    Character c = text.at(at);
    if (text.byte(at) == ' ') {
      const Character next = text.at(at + 1);
      if (next.length != 0 && (next.kind & kWhite) == 0) {
        ++at;
        c = next;
      }
    }
    if (c.kind & kLetter) return text.skip_letters(at);
    if (c.kind & kNumber) return text.skip(at, kNumber);
    if (c.kind & kWhite) return skip_white<false>(text, begin);
    return text.skip_not(at, kSpaceLetterNumber);
  }
};

template <unsigned kMostNumbers>
struct Llama3 {
  static uint64_t starts(const AsciiBlock& w, const Characters& text, size_t begin) {
    return llama3_starts<kMostNumbers>(w, contractions<true>(text, begin));
  }
  static size_t end_of_piece(const Characters& text, size_t begin) {
    const Character c = text.at(begin);
    if (c.kind & kLetter) return text.skip_letters(begin + c.length);
    if (c.kind & kNumber) return skip_numbers<kMostNumbers>(text, begin);
    if ((c.kind & kNewline) == 0) {
      if (text.byte(begin) == '\'') {
        if (const size_t end = skip_contraction<true>(text, begin); end != begin) return end;
      }
      const Character next = text.at(begin + c.length);
      if (next.kind & kLetter) return text.skip_letters(begin + c.length + next.length);
      if ((c.kind & kWhite) == 0) return skip_newlines(text, text.skip_not(begin, kSpaceLetterNumber));
      if (text.byte(begin) == ' ' && next.length != 0 && (next.kind & kSpaceLetterNumber) == 0)
        return skip_newlines(text, text.skip_not(begin + 1, kSpaceLetterNumber));
    }
    return skip_white<true>(text, begin);
  }
};

struct O200k {
  // The pattern's two classes of letters. Letters that are neither upper nor lower case are in both.
  static constexpr uint8_t kHead = kUpper | kOtherLetter | kMark, kTail = kLower | kOtherLetter | kMark;

  // The end of [head]*[tail]+ from `begin`; `begin` if it does not match.
  static size_t skip_capitalised(const Characters& text, size_t begin) {
    size_t at = begin, after_both = begin;
    for (Character c; (c = text.at(at)).kind & kHead;) {
      at += c.length;
      if (c.kind & kTail) after_both = at;
    }
    const size_t end = text.skip(at, kTail);
    return end != at ? end : after_both;  // no lower-case letter follows: the last of both is the tail
  }
  static size_t end_of_word(const Characters& text, size_t begin, const Character& first) {
    const bool may_lead = (first.kind & (kNewline | kLetter | kNumber)) == 0;
    const size_t led = begin + first.length;
    if (may_lead) {
      if (const size_t end = skip_capitalised(text, led); end != led) return end;
    }
    if (const size_t end = skip_capitalised(text, begin); end != begin) return end;
    if (may_lead) {
      if (const size_t end = text.skip(led, kHead); end != led) return end;
    }
    return text.skip(begin, kHead);
  }
  static size_t end_of_piece(const Characters& text, size_t begin) {
    const Character c = text.at(begin);
    if (const size_t end = end_of_word(text, begin, c); end != begin) return skip_contraction<true>(text, end);
    if (c.kind & kNumber) return skip_numbers<3>(text, begin);
    if ((c.kind & kWhite) == 0) return skip_newlines(text, text.skip_not(begin, kSpaceLetterNumber), true);
    if (text.byte(begin) == ' ') {
      const Character next = text.at(begin + 1);
      if (next.length != 0 && (next.kind & kSpaceLetterNumber) == 0)
        return skip_newlines(text, text.skip_not(begin + 1, kSpaceLetterNumber), true);
    }
    return skip_white<true>(text, begin);
  }
};

// ---- patterns that leave gaps: end_of_match returns `begin` if no match begins there

template <unsigned kMost>
struct Numbers {
  static size_t end_of_match(const Characters& text, size_t begin) { return skip_numbers<kMost>(text, begin); }
};

struct HanAndKana {
  // U+4E00 to U+9FA5 and U+3040 to U+30FF: three bytes each.
  static bool is_one(const Characters& text, size_t at) {
    if (at + 3 > text.size() || text.byte(at) < 0xE3 || text.byte(at) > 0xE9) return false;
    const auto follows = [&](size_t i) { return (text.byte(i) & 0xC0) == 0x80; };
    if (!follows(at + 1) || !follows(at + 2)) return false;
    const unsigned c = (text.byte(at) & 15U) << 12 | (text.byte(at + 1) & 63U) << 6 | (text.byte(at + 2) & 63U);
    return (c >= 0x4E00 && c <= 0x9FA5) || (c >= 0x3040 && c <= 0x30FF);
  }
  static size_t end_of_match(const Characters& text, size_t at) {
    while (is_one(text, at)) at += 3;
    return at;
  }
};

struct DeepSeekWords {
  static size_t end_of_match(const Characters& text, size_t begin) {
    const Character c = text.at(begin);
    const size_t second = begin + c.length;
    if ((c.kind & kSymbol) && text.byte(begin) < 0x80) {
      size_t at = second;
      while (at < text.size() && text.byte(at) < 0x80 && (kAsciiKinds[text.byte(at)] & kLetter)) ++at;
      if (at != second) return at;
    }
    constexpr uint8_t kWord = kLetter | kMark;
    if (c.kind & kLetter) return text.skip(second, kWord);
    if ((c.kind & (kNewline | kSymbol)) == 0) {
      if (const size_t end = text.skip(second, kWord); end != second) return end;
      if (c.kind & kMark) return second;
    }
    if (c.kind & kSymbol) return skip_newlines(text, text.skip(second, kSymbol));
    if (text.byte(begin) == ' ' && (text.at(second).kind & kSymbol))
      return skip_newlines(text, text.skip(second, kSymbol));
    return (c.kind & kWhite) ? skip_white<true>(text, begin) : begin;
  }
};

template <class Matches>
struct WithGaps {
  static size_t end_of_piece(const Characters& text, size_t begin) {
    size_t at = begin;
    if (const size_t end = Matches::end_of_match(text, at); end != at) return end;
    do {
      at += text.at(at).length;
    } while (at < text.size() && Matches::end_of_match(text, at) == at);
    return at;
  }
};

template <class Pattern>
concept ByWindow = requires(const AsciiBlock& w, const Characters& text) {
  Pattern::starts(w, text, size_t{});
};

// Appends the pieces from `begin` that the window determines, and moves `begin` to their end. False if it determines no
// piece.
template <ByWindow Pattern>
bool cut_window(const Characters& text, const char* data, size_t& begin, std::span<std::string_view> out,
                size_t& count) {
  if (text.size() - begin < AsciiBlock::kBytes || !text.is_ascii8(begin)) return false;
  const AsciiBlock w = AsciiBlock::of(data + begin);
  uint64_t starts = known_starts(w, Pattern::starts(w, text, begin));
  if (starts == 0) return false;
  const char* const window = data + begin;
  unsigned at = 0;
  for (; starts != 0 && count < out.size(); starts &= starts - 1) {
    const auto next = static_cast<unsigned>(std::countr_zero(starts));
    out[count++] = std::string_view(window + at, next - at);
    at = next;
  }
  begin += at;
  return true;
}

template <class Pattern>
size_t cut(std::string_view text, size_t& at, std::span<std::string_view> out) {
  const Characters characters(text);
  size_t begin = at, count = 0;
  while (begin < text.size() && count < out.size()) {
    if constexpr (ByWindow<Pattern>) {
      if (cut_window<Pattern>(characters, text.data(), begin, out, count)) continue;
    }
    const size_t end = Pattern::end_of_piece(characters, begin);
    out[count++] = std::string_view(text.data() + begin, end - begin);
    begin = end;
  }
  at = begin;
  return count;
}

constexpr KnownPattern kKnown[] = {
    {kGpt2Pattern, cut<Gpt2>, true, true},
    {kLlama3Pattern, cut<Llama3<3>>, true, true},
    {kQwen2Pattern, cut<Llama3<1>>, true, true},
    {kO200kPattern, cut<O200k>, true, true},
    {kDeepSeekPatterns[0], cut<WithGaps<Numbers<3>>>, false, false},
    {kDeepSeekPatterns[1], cut<WithGaps<HanAndKana>>, false, false},
    {kDeepSeekPatterns[2], cut<WithGaps<DeepSeekWords>>, false, true},
    {kDigitsPattern, cut<WithGaps<Numbers<1>>>, false, false},
};

}  // namespace

const KnownPattern* find_known_pattern(std::string_view pattern) {
  for (const KnownPattern& known : kKnown) {
    if (known.pattern == pattern) return &known;
  }
  return nullptr;
}

CutFunction number_runs_cutter() { return cut<WithGaps<Numbers<~0U>>>; }

}  // namespace hearth::tokenizer
