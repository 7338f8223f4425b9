// SPDX-License-Identifier: Apache-2.0
// The matches of a regular expression or of a plain text, and the gaps between them, in order. The text may contain
// invalid UTF-8.
#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "tokenizer/pretokenizer/regex.h"

namespace hearth::tokenizer {

struct Stretch {
  size_t begin, end;
  bool is_match;
};

// Walks a text as in Hugging Face's find_matches: gap, match, gap, ... Gaps are never empty; matches may be.
class Matches {
 public:
  // If `regex` is null, the matches are those of `literal`. Both must outlive this object.
  Matches(const Regex* regex, std::string_view literal);

  void start(std::string_view text);
  bool next(Stretch& stretch);

 private:
  bool find(Regex::Match& match);
  size_t place_in_text(size_t place);

  std::string_view literal_;
  std::optional<Regex::Matcher> matcher_;
  std::string_view text_, subject_;
  // A copy of the text for PCRE2, which needs UTF-8: each invalid byte is U+FFFF, a code point that is never assigned.
  std::string substituted_;
  std::vector<size_t> substitutes_;  // their places in substituted_
  size_t substitutes_passed_ = 0;
  size_t from_ = 0, gap_begin_ = 0;
  std::optional<size_t> last_match_end_;
  std::optional<Stretch> waiting_;
  bool is_done_ = true;
};

}  // namespace hearth::tokenizer
