// SPDX-License-Identifier: Apache-2.0
// Translates Oniguruma's syntax, with our Unicode tables, to PCRE2's syntax.
#include <algorithm>
#include <functional>
#include <map>
#include <optional>
#include <vector>

#include "base/error.h"
#include "tokenizer/pretokenizer/regex.h"
#include "tokenizer/unicode/unicode.h"

namespace hearth::tokenizer {
namespace {

constexpr char32_t kNumCodePoints = 0x110000;
bool is_surrogate(char32_t c) { return c >= 0xD800 && c <= 0xDFFF; }

// A set of characters, with a flag for each character.
using CharacterSet = std::vector<bool>;

CharacterSet set_of(const std::function<bool(char32_t)>& has) {
  CharacterSet set(kNumCodePoints);
  for (char32_t c = 0; c < kNumCodePoints; ++c) set[c] = !is_surrogate(c) && has(c);
  return set;
}

// The set of \p{name} in our tables: a general category of one or two letters.
std::optional<CharacterSet> set_of_property(std::string_view name) {
  constexpr std::string_view kNames[] = {"Cn", "Lu", "Ll", "Lt", "Lm", "Lo", "Mn", "Mc", "Me", "Nd",
                                         "Nl", "No", "Pc", "Pd", "Ps", "Pe", "Pi", "Pf", "Po", "Sm",
                                         "Sc", "Sk", "So", "Zs", "Zl", "Zp", "Cc", "Cf", "Cs", "Co"};
  if (name.empty() || name.size() > 2) return std::nullopt;
  uint32_t wanted = 0;
  for (size_t i = 0; i < std::size(kNames); ++i) {
    if (kNames[i].starts_with(name)) wanted |= 1U << i;
  }
  if (wanted == 0) return std::nullopt;
  return set_of([&](char32_t c) { return (wanted >> static_cast<unsigned>(category(c)) & 1) != 0; });
}

// The set of PCRE2's \p{name}.
CharacterSet set_of_pcre2(std::string_view name) {
  std::string all;
  for (char32_t c = 0; c < kNumCodePoints; ++c) {
    if (!is_surrogate(c)) append_utf8(c, all);
  }
  const Regex regex = Regex::untranslated(fmt::format("\\p{{{}}}+", name));
  Regex::Matcher matcher(regex);
  CharacterSet set(kNumCodePoints);
  for (Regex::Match match{0, 0}; matcher.find(all, match.end, match);) {
    for (size_t at = match.begin; at < match.end;) {
      const Decoded d = decode_utf8(all, at);
      set[d.c] = true;
      at += d.length;
    }
  }
  return set;
}

std::string ranges_of(const CharacterSet& set) {
  std::string ranges;
  for (char32_t first = 0; first < kNumCodePoints; ++first) {
    if (!set[first]) continue;
    char32_t last = first;
    while (last + 1 < kNumCodePoints && set[last + 1]) ++last;
    ranges += fmt::format("\\x{{{:x}}}-\\x{{{:x}}}", uint32_t{first}, uint32_t{last});
    first = last;
  }
  return ranges;
}

CharacterSet complement(const CharacterSet& set) {
  return set_of([&](char32_t c) { return !set[c]; });
}

// Consecutive letters of a pattern that ignores case. Oniguruma also accepts one character for several of them: U+00DF
// for "ss", U+FB01 for "fi". PCRE2 does not.
class Letters {
 public:
  void add(char c) { text_ += (c >= 'A' && c <= 'Z') ? static_cast<char>(c - 'A' + 'a') : c; }
  void end() { text_.clear(); }
  // The last two letters, if CaseFolding.txt of Unicode has a character that folds to them (status F); else "".
  std::string_view pair() const {
    const std::string_view last = std::string_view(text_).substr(text_.size() - std::min<size_t>(text_.size(), 2));
    for (const std::string_view pair : {"ss", "ff", "fi", "fl", "st"}) {
      if (last == pair) return pair;
    }
    return {};
  }

 private:
  std::string text_;
};

class Translation {
 public:
  explicit Translation(std::string_view pattern) : in_(pattern) {}

  std::string run() {
    while (at_ < in_.size()) {
      const char c = in_[at_];
      if (c == '\\') {
        escape();
      } else if (in_class_ && (c == '[' || (c == ']' && in_inner_class_))) {
        inner_class(c);
      } else if (c == '[') {
        in_class_ = true;
        at_branch_start_ = false;
        letters_.end();
        take(in_.substr(at_).starts_with("[^") ? 2 : 1);
        if (at_ < in_.size() && in_[at_] == ']') refuse("[]", "a class that begins with ]");
      } else if (c == ']') {
        in_class_ = false;
        take(1);
      } else if (in_class_) {
        if (in_.substr(at_).starts_with("&&")) refuse("&&", "an intersection of classes");
        if (ignores_case()) check_class_character();
        take(1);
      } else if (c == '(' || c == ')' || c == '|') {
        structure();
      } else if (c == '{' && in_.substr(at_).starts_with("{,")) {
        refuse("{,", "a repetition without a lower bound");
      } else if (c == '}' && in_.substr(at_).starts_with("}+")) {
        refuse("}+", "one engine reads it as a repeated repetition, the other as a possessive one");
      } else {
        literal();
      }
    }
    return std::move(out_);
  }

 private:
  [[noreturn]] void refuse(std::string_view what, std::string_view why) const {
    throw user_error(fmt::format("the pattern {} uses {}", in_, what), fmt::format("{}: it is not supported", why),
                     "change the pattern of the tokenizer's pre_tokenizer, or report this tokenizer");
  }
  void take(size_t bytes) {
    bytes = std::min(bytes, in_.size() - at_);
    out_ += in_.substr(at_, bytes);
    at_ += bytes;
  }

  // A class in a class adds its members, and PCRE2 would read its bracket as one of them.
  void inner_class(char c) {
    const std::string_view rest = in_.substr(at_);
    if (c == '[' && (in_inner_class_ || rest.starts_with("[^") || rest.starts_with("[:") || rest.starts_with("[]")))
      refuse("[", "such a class inside a class");
    // A minus at the border would become a range.
    if (in_[at_ - 1] == '-' || rest.substr(1).starts_with('-')) refuse("-", "a minus beside a class inside a class");
    in_inner_class_ = c == '[';
    ++at_;
  }

  bool ignores_case() const { return groups_.back().ignores_case; }

  // A parenthesis or |.
  void structure() {
    const char c = in_[at_];
    if (c == '(') return open_group();
    if (c == ')') {
      if (!groups_.back().plain) letters_.end();
      if (groups_.size() > 1) groups_.pop_back();
    } else {
      letters_.end();
      groups_.back().plain = false;  // letters do not continue across alternatives
    }
    at_branch_start_ = c == '|';
    take(1);
  }

  void open_group() {
    const std::string_view rest = in_.substr(at_);
    if (rest.starts_with("(?i)")) {
      // Elsewhere Oniguruma reads a(?i)b|c as a(?i:b|c), and PCRE2 as a(?i:b)|(?i:c).
      if (!at_branch_start_) refuse("(?i)", "an option after the start of an alternative");
      groups_.back().ignores_case = true;
      return take(4);
    }
    std::string_view opening = rest.starts_with("(?") ? "" : "(";
    for (const std::string_view known : {"(?:", "(?=", "(?!", "(?<=", "(?<!", "(?>", "(?i:", "(?-i:"}) {
      if (rest.starts_with(known)) opening = known;
    }
    if (opening.empty()) refuse(rest.substr(0, 4), "a group whose meaning differs between engines");
    // Oniguruma joins letters across the borders of a plain group.
    const bool plain = opening == "(?:";
    if (!plain) letters_.end();
    groups_.push_back({opening == "(?i:" || (ignores_case() && opening != "(?-i:"), plain});
    at_branch_start_ = true;
    take(opening.size());
  }

  // A character outside of classes, including a repetition operator.
  void literal() {
    const char c = in_[at_];
    if (ignores_case()) {
      check_cased();
      const char next = at_ + 1 < in_.size() ? in_[at_ + 1] : '\0';
      const bool is_letter = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z');
      // A repeated letter is separate: ss? is s and s?.
      if (!is_letter || next == '*' || next == '+' || next == '?') {
        letters_.end();
      } else {
        letters_.add(c);
        if (!letters_.pair().empty())
          refuse(letters_.pair(), "letters that equal one other character if case is ignored");
      }
    }
    at_branch_start_ = false;
    take(1);
  }

  // The engines fold case by different Unicode versions, and Oniguruma folds one character to several.
  void check_cased() const {
    if ((static_cast<unsigned char>(in_[at_]) & 0xC0) == 0x80) return;  // inside a character
    const Decoded d = decode_utf8(in_, at_);
    if (d.c >= 0x80 && (is_letter(d.c) || is_mark(d.c) || is_number(d.c) || is_symbol(d.c)))
      refuse(in_.substr(at_, d.length), "a non-ASCII character while case is ignored");
  }

  void check_class_character() const {
    check_cased();
    if (in_[at_] != '-' || at_ + 1 >= in_.size()) return;
    if (((in_[at_ - 1] | in_[at_ + 1]) & 0x80) != 0)
      refuse(in_.substr(at_, 1 + decode_utf8(in_, at_ + 1).length), "a non-ASCII range while case is ignored");
  }

  void escape() {
    if (at_ + 1 >= in_.size()) refuse("\\", "nothing follows it");
    const char c = in_[at_ + 1];
    at_branch_start_ = false;
    letters_.end();
    if (ignores_case() &&
        (c == 'x' || c == 'u' || (in_class_ && std::string_view("pPSD").find(c) != std::string_view::npos)))
      refuse(in_.substr(at_, 2),
             in_class_ ? "a set in a class while case is ignored" : "a character by its number while case is ignored");
    const bool is_word = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9');
    if (!is_word || std::string_view("nrtfae").find(c) != std::string_view::npos) return take(2);
    if (c == 'v') return emit("\\x0b", 2);
    if (c == 'x') return take(in_.substr(at_).starts_with("\\x{") ? in_.find('}', at_) + 1 - at_ : 2);
    if (c == 'u' && at_ + 6 <= in_.size()) return emit(fmt::format("\\x{{{}}}", in_.substr(at_ + 2, 4)), 6);
    if (c == 's' || c == 'S') return set(c == 'S' ? "white space, negated" : "white space", c == 'S', 2);
    if (c == 'd' || c == 'D') return set("Nd", c == 'D', 2);
    if (c == 'p' || c == 'P') return property(c == 'P');
    if (!in_class_ && (c == 'A' || c == 'z')) return take(2);
    refuse(in_.substr(at_, 2), "an escape whose meaning differs between engines");
  }

  void property(bool negated) {
    std::string_view rest = in_.substr(at_ + 2);
    const size_t close = rest.find('}');
    if (!rest.starts_with('{') || close == std::string_view::npos)
      refuse(in_.substr(at_, 3), "a property without braces");
    std::string_view name = rest.substr(1, close - 1);
    if (name.starts_with('^')) {
      negated = !negated;
      name.remove_prefix(1);
    }
    set(name, negated, 2 + close + 1);
  }

  // Writes the set, inside or outside of a class. `bytes` is the length of its name in the pattern.
  void set(std::string_view name, bool negated, size_t bytes) {
    const std::string& body = body_of(name, negated, bytes);
    // Outside of a class, Oniguruma does not ignore the case of a property.
    emit(in_class_ ? body : ignores_case() ? "(?-i:[" + body + "])" : "[" + body + "]", bytes);
  }
  void emit(std::string_view text, size_t bytes) {
    out_ += text;
    at_ += bytes;
  }

  // The text of a property inside a class: PCRE2's own name if the meaning is the same, plus any newer characters that
  // PCRE2 lacks. Otherwise ranges.
  const std::string& body_of(std::string_view name, bool negated, size_t bytes) {
    const auto [found, is_new] = bodies_.try_emplace({std::string(name), negated});
    if (!is_new) return found->second;
    if (name.starts_with("white space")) {
      const CharacterSet white = set_of(is_white_space);
      return found->second = ranges_of(negated ? complement(white) : white);
    }
    const std::optional<CharacterSet> ours = set_of_property(name);
    if (!ours) refuse(in_.substr(at_, bytes), "a property that is not a general category");
    const CharacterSet theirs = set_of_pcre2(name);
    const CharacterSet more = set_of([&](char32_t c) { return (*ours)[c] && !theirs[c]; });
    const CharacterSet fewer = set_of([&](char32_t c) { return !(*ours)[c] && theirs[c]; });
    const auto is_empty = [](const CharacterSet& set) { return std::find(set.begin(), set.end(), true) == set.end(); };
    if (is_empty(more) && is_empty(fewer)) return found->second = fmt::format("\\{}{{{}}}", negated ? 'P' : 'p', name);
    if (is_empty(fewer) && !negated) return found->second = fmt::format("\\p{{{}}}", name) + ranges_of(more);
    return found->second = ranges_of(negated ? complement(*ours) : *ours);
  }

  std::string_view in_;
  size_t at_ = 0;
  bool in_class_ = false, in_inner_class_ = false;
  bool at_branch_start_ = true;  // of the pattern, a group or an alternative
  struct Group {
    bool ignores_case, plain;
  };
  std::vector<Group> groups_ = {{false, false}};
  Letters letters_;
  std::string out_;
  std::map<std::pair<std::string, bool>, std::string> bodies_;
};

}  // namespace

std::string translate_pattern(std::string_view pattern) { return Translation(pattern).run(); }

}  // namespace hearth::tokenizer
