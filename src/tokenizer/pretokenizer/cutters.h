// SPDX-License-Identifier: Apache-2.0
// Hand-written finite-state cutters for the patterns of published tokenizers. Each gives the pieces of its regular
// expression with the behaviour "isolated": the matches, and the gaps between them.
#pragma once

#include <cstddef>
#include <span>
#include <string_view>

namespace hearth::tokenizer {

// Cuts from `at` on until `out` is full or the text ends. Moves `at` to the end of the last piece and returns the
// number of pieces.
using CutFunction = size_t (*)(std::string_view text, size_t& at, std::span<std::string_view> out);

struct KnownPattern {
  std::string_view pattern;
  CutFunction cut;
  bool matches_everything;  // there are no gaps between matches
  // Whether a piece always ends in two places, whatever the text around them: between an ASCII letter and a space, and
  // after a newline between two characters that are neither white space nor a slash. A text may be cut there.
  bool cuts_words;
};

// Null if this spelling has no cutter.
const KnownPattern* find_known_pattern(std::string_view pattern);
// Runs of number characters: kDigitsPattern, but adjacent matches are one piece.
CutFunction number_runs_cutter();

}  // namespace hearth::tokenizer
