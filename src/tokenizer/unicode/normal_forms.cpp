// SPDX-License-Identifier: Apache-2.0
// Normalization forms (UAX #15). Text is cut before each character of combining class 0 whose quick check says yes:
// nothing can change across such a cut. A stretch with only such characters is copied. Any other stretch is decomposed,
// put in canonical order, and composed if the form is a composed one.
#include <algorithm>
#include <cstring>
#include <iterator>
#include <vector>

#include "tokenizer/unicode/unicode.h"

namespace hearth::tokenizer {

namespace unicode_tables {
extern const uint16_t kNormBlocks[0x110000 >> kBlockBits];
extern const uint16_t kNormClasses[];    // combining class, and the bits below
extern const char32_t kCanonicalFrom[];  // [kNumCanonical], sorted
extern const uint16_t kCanonicalEnds[];
extern const char32_t kCanonicalParts[];
extern const char32_t kCompatibilityFrom[];  // [kNumCompatibility], sorted; with the canonical ones
extern const uint16_t kCompatibilityEnds[];
extern const char32_t kCompatibilityParts[];
extern const uint64_t kPairs[];  // [kNumPairs], first << 32 | second, sorted
extern const char32_t kComposed[];
extern const size_t kNumCanonical, kNumCompatibility, kNumPairs;
}  // namespace unicode_tables

namespace {

using namespace unicode_tables;

// The order of NFC_NO and the following in cmake/unicode_tables.py.
constexpr uint16_t kCombiningClass = 255;
constexpr uint16_t kNfcNo = 256, kNfcMaybe = 512, kNfdNo = 1024, kNfkcNo = 2048, kNfkdNo = 4096, kMark = 8192;
constexpr uint16_t kNonspacingOfBert = 16384, kOtherOfBert = 32768;
// Hangul syllables are composed by arithmetic (The Unicode Standard, 3.12).
constexpr char32_t kSBase = 0xAC00, kLBase = 0x1100, kVBase = 0x1161, kTBase = 0x11A7;
constexpr char32_t kLCount = 19, kVCount = 21, kTCount = 28, kSCount = kLCount * kVCount * kTCount;

struct Mark {
  char32_t c;
  uint8_t combining_class;
};

uint16_t norm_class(char32_t c) {
  if (c >= 0x110000) return 0;
  return kNormClasses[(size_t{kNormBlocks[c >> kBlockBits]} << kBlockBits) + (c & ((1U << kBlockBits) - 1))];
}

uint8_t combining_class(char32_t c) { return static_cast<uint8_t>(norm_class(c) & kCombiningClass); }

constexpr bool is_composed(NormalForm form) { return form == NormalForm::kNfc || form == NormalForm::kNfkc; }
constexpr bool is_compatible(NormalForm form) { return form == NormalForm::kNfkc || form == NormalForm::kNfkd; }

// The bits of characters that the form's quick check does not pass.
constexpr uint16_t doubtful_bits(NormalForm form) {
  constexpr uint16_t kDoubtful[] = {kNfcNo | kNfcMaybe, kNfdNo, kNfkcNo | kNfcMaybe, kNfkdNo};  // by form
  return kDoubtful[static_cast<size_t>(form)];
}

void decompose(char32_t c, bool compatible, std::vector<Mark>& out) {
  if (c >= kSBase && c < kSBase + kSCount) {
    const char32_t s = c - kSBase;
    out.push_back({kLBase + s / (kVCount * kTCount), 0});
    out.push_back({kVBase + s % (kVCount * kTCount) / kTCount, 0});
    if (s % kTCount != 0) out.push_back({kTBase + s % kTCount, 0});
    return;
  }
  const char32_t* from = compatible ? kCompatibilityFrom : kCanonicalFrom;
  const uint16_t* ends = compatible ? kCompatibilityEnds : kCanonicalEnds;
  const char32_t* parts = compatible ? kCompatibilityParts : kCanonicalParts;
  const char32_t* end = from + (compatible ? kNumCompatibility : kNumCanonical);
  const char32_t* found = std::lower_bound(from, end, c);
  if (found == end || *found != c) {
    out.push_back({c, combining_class(c)});
    return;
  }
  const auto i = static_cast<size_t>(found - from);
  for (size_t k = ends[i]; k < ends[i + 1]; ++k) out.push_back({parts[k], combining_class(parts[k])});
}

// The composition of both, or 0.
char32_t compose(char32_t first, char32_t second) {
  if (first >= kLBase && first < kLBase + kLCount && second >= kVBase && second < kVBase + kVCount)
    return kSBase + ((first - kLBase) * kVCount + (second - kVBase)) * kTCount;
  if (first >= kSBase && first < kSBase + kSCount && (first - kSBase) % kTCount == 0 && second > kTBase &&
      second < kTBase + kTCount)
    return first + (second - kTBase);
  if (first >= 0x110000 || second >= 0x110000) return 0;
  const uint64_t pair = uint64_t{first} << 32 | second;
  const uint64_t* end = kPairs + kNumPairs;
  const uint64_t* found = std::lower_bound(kPairs, end, pair);
  return found != end && *found == pair ? kComposed[found - kPairs] : 0;
}

// Composes `marks`, which are in canonical order, in place.
void compose_all(std::vector<Mark>& marks) {
  size_t starter = marks.size(), kept = 0;
  int last_class = -1;  // of the last mark after the starter; -1: no mark yet
  for (size_t i = 0; i < marks.size(); ++i) {
    const Mark mark = marks[i];
    if (starter < marks.size() && last_class < mark.combining_class) {
      if (const char32_t composed = compose(marks[starter].c, mark.c); composed != 0) {
        marks[starter].c = composed;
        continue;
      }
    }
    if (mark.combining_class == 0) {
      starter = kept;
      last_class = -1;
    } else {
      last_class = mark.combining_class;
    }
    marks[kept++] = mark;
  }
  marks.resize(kept);
}

void append_stretch(std::string_view stretch, NormalForm form, std::vector<Mark>& marks, std::string& out) {
  marks.clear();
  for (size_t at = 0; at < stretch.size();) {
    const Decoded d = decode_utf8(stretch, at);
    decompose(d.c, is_compatible(form), marks);
    at += d.length;
  }
  for (size_t i = 0; i < marks.size();) {
    size_t end = i + 1;
    while (end < marks.size() && marks[end].combining_class != 0) ++end;
    const size_t first = marks[i].combining_class == 0 ? i + 1 : i;
    std::stable_sort(marks.begin() + static_cast<std::ptrdiff_t>(first),
                     marks.begin() + static_cast<std::ptrdiff_t>(end),
                     [](const Mark& a, const Mark& b) { return a.combining_class < b.combining_class; });
    i = end;
  }
  if (is_composed(form)) compose_all(marks);
  for (const Mark& mark : marks) append_utf8(mark.c, out);
}

// The end of the ASCII characters from `at` on, eight at a time.
size_t ascii_end(std::string_view text, size_t at) {
  for (uint64_t bytes; at + sizeof bytes <= text.size(); at += sizeof bytes) {
    std::memcpy(&bytes, text.data() + at, sizeof bytes);
    if ((bytes & 0x8080808080808080) != 0) break;
  }
  while (at < text.size() && static_cast<unsigned char>(text[at]) < 0x80) ++at;
  return at;
}

// The first place at or after `at` whose quick check does not say yes, or the end. `cut`: the last safe cut before it.
size_t find_doubtful(std::string_view text, size_t at, uint16_t doubtful, size_t& cut) {
  int last_class = 0;
  cut = at;
  while (at < text.size()) {
    if (static_cast<unsigned char>(text[at]) < 0x80) {
      at = ascii_end(text, at);
      cut = at - 1;
      last_class = 0;
      continue;
    }
    const Decoded d = decode_utf8(text, at);
    const uint16_t norm = norm_class(d.c);
    const int own = norm & kCombiningClass;
    if ((norm & doubtful) != 0 || (own != 0 && own < last_class)) return at;
    if (own == 0) cut = at;
    last_class = own;
    at += d.length;
  }
  cut = at;
  return at;
}

// The first safe cut at or after `at`: before a character of class 0 that the quick check passes, or the end. An
// invalid byte counts as such a character, and nothing composes across it.
size_t next_cut(std::string_view text, size_t at, uint16_t doubtful) {
  while (at < text.size()) {
    const Decoded d = decode_utf8(text, at);
    if ((norm_class(d.c) & (doubtful | kCombiningClass)) == 0) return at;
    at += d.length;
  }
  return at;
}

}  // namespace

bool is_surely_normal(NormalForm form, std::string_view text) {
  size_t cut;
  return find_doubtful(text, 0, doubtful_bits(form), cut) == text.size();
}

void append_normal(NormalForm form, std::string_view text, std::string& out) {
  const uint16_t doubtful = doubtful_bits(form);
  std::vector<Mark> marks;
  for (size_t at = 0; at < text.size();) {
    size_t cut;
    const size_t found = find_doubtful(text, at, doubtful, cut);
    out.append(text, at, cut - at);
    if (found == text.size()) return;
    // An invalid byte at the cut composes with nothing, so it is copied.
    if (cut < found && decode_utf8(text, cut).c == kInvalidByte) out.push_back(text[cut++]);
    const size_t end = next_cut(text, found + decode_utf8(text, found).length, doubtful);
    append_stretch(text.substr(cut, end - cut), form, marks, out);
    at = end;
  }
}

bool is_mark_of_normalizers(char32_t c) { return (norm_class(c) & kMark) != 0; }
bool is_nonspacing_of_bert(char32_t c) { return (norm_class(c) & kNonspacingOfBert) != 0; }
bool is_other_of_bert(char32_t c) { return (norm_class(c) & kOtherOfBert) != 0; }

}  // namespace hearth::tokenizer
