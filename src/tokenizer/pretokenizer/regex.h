// Regular expressions in PCRE2 that mean what they mean in Oniguruma, the engine of `tokenizers`, with our own Unicode
// tables. The syntax is translated; what the two engines would read differently, and cannot be translated, is refused.
#pragma once

#include <cstddef>
#include <memory>
#include <string>
#include <string_view>

namespace hearth::tokenizer {

// `pattern` in PCRE2's syntax. Properties become ranges where PCRE2's Unicode version differs from ours. Throws
// user_error naming what cannot be translated.
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
  // In PCRE2's own syntax: for looking at PCRE2.
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

  // The leftmost match in `text`, which must be UTF-8, that begins at `from` or later; looks behind may reach before
  // `from`. False if nothing matches. Throws user_error where the search exceeds PCRE2's limits.
  bool find(std::string_view text, size_t from, Match& match);

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace hearth::tokenizer
