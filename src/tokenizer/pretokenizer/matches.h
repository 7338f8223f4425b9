// The matches of a regular expression or of a plain text, one after the other, and what lies between them, in a text
// that may hold bytes that are no UTF-8.
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

// Walks a text as Hugging Face's find_matches does: gap, match, gap, ...; gaps are never empty, matches may be.
class Matches {
 public:
  // `regex` null: `literal` is looked for. Both must outlive this.
  Matches(const Regex* regex, std::string_view literal);

  void start(std::string_view text);
  bool next(Stretch& stretch);

 private:
  bool find(Regex::Match& match);
  size_t place_in_text(size_t place);

  std::string_view literal_;
  std::optional<Regex::Matcher> matcher_;
  std::string_view text_, subject_;
  // Each invalid byte becomes U+FFFF, which is unassigned for ever, so that PCRE2 sees UTF-8.
  std::string substituted_;
  std::vector<size_t> substitutes_;  // where they are in substituted_
  size_t substitutes_passed_ = 0;
  size_t from_ = 0, gap_begin_ = 0;
  std::optional<size_t> last_match_end_;
  std::optional<Stretch> waiting_;
  bool is_done_ = true;
};

}  // namespace hearth::tokenizer
