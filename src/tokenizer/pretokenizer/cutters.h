// Finite-state cutters, written by hand, for the patterns that published tokenizers use. Each gives the pieces that its
// regular expression gives with the behaviour "isolated": matches, and what lies between them.
#pragma once

#include <cstddef>
#include <span>
#include <string_view>

namespace hearth::tokenizer {

// Cuts from `at` on until `out` is full or the text ends; moves `at` behind the last piece and returns their number.
using CutFunction = size_t (*)(std::string_view text, size_t& at, std::span<std::string_view> out);

struct KnownPattern {
  std::string_view pattern;
  CutFunction cut;
  bool matches_everything;  // no character lies between matches
  // Whether a piece always ends between an ASCII letter and a space, and behind a newline between two characters that
  // are not white space (nor a slash), whatever follows and precedes: a text may be taken apart there.
  bool cuts_words;
};

// Null if there is none for this spelling.
const KnownPattern* find_known_pattern(std::string_view pattern);
// Runs of number characters: kDigitsPattern with matches that touch as one piece.
CutFunction number_runs_cutter();

}  // namespace hearth::tokenizer
