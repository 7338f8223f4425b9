// SPDX-License-Identifier: Apache-2.0
// Regular expressions in PCRE2 with the meaning of Oniguruma, the engine of `tokenizers`, and our own Unicode tables.
// The syntax is translated. A construct is refused if its meaning differs between the engines and cannot be translated.
#pragma once

#include <cstddef>
#include <memory>
#include <string>
#include <string_view>

namespace hearth::tokenizer {

// `pattern` in PCRE2's syntax. Properties become ranges where PCRE2's Unicode version differs from ours. Throws
// user_error for a construct that cannot be translated, and names it.
std::string translate_pattern(std::string_view pattern);

// Immutable, shared by threads.
class Regex {
 public:
  struct Code;
  struct Match {
    size_t begin, end;
  };
  class Matcher;

  // Throws user_error if the pattern cannot be translated or compiled.
  explicit Regex(std::string_view pattern);
  // In PCRE2's own syntax. Used to read PCRE2's Unicode tables.
  static Regex untranslated(std::string_view pattern);
  ~Regex();
  Regex(Regex&&) noexcept;
  Regex& operator=(Regex&&) noexcept;

 private:
  Regex() = default;
  std::unique_ptr<const Code> code_;
};

// Searches for one thread. Borrows the expression.
class Regex::Matcher {
 public:
  explicit Matcher(const Regex& regex);
  ~Matcher();
  Matcher(const Matcher&) = delete;
  Matcher& operator=(const Matcher&) = delete;

  // The leftmost match in `text`, which must be UTF-8, that begins at `from` or later. A lookbehind may read text
  // before `from`. False if nothing matches. Throws user_error if the search exceeds PCRE2's limits.
  bool find(std::string_view text, size_t from, Match& match);

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace hearth::tokenizer
