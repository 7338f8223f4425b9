// Numbers and tests of a script: $(( )), [ ], [[ ]].
#include <fmt/format.h>

#include <charconv>
#include <string_view>
#include <utility>

#include "config/import/shell_reader.h"

namespace hearth::config {
namespace {

// Precedence climbing over one text. Empty results: a fault, a division by zero, or a number beyond 64 bits.
class Arithmetic {
 public:
  Arithmetic(std::string_view text, const std::function<std::optional<int64_t>(const std::string&)>& variable)
      : text_(text), variable_(variable) {}

  std::optional<int64_t> whole() {
    const auto value = binary(0);
    blanks();
    return at_ == text_.size() ? value : std::nullopt;
  }

 private:
  struct Operator {
    std::string_view text;
    int level;
  };
  static constexpr Operator kOperators[] = {{"||", 1}, {"&&", 2}, {"==", 3}, {"!=", 3}, {"<=", 4}, {">=", 4}, {"<", 4},
                                            {">", 4},  {"+", 5},  {"-", 5},  {"*", 6},  {"/", 6},  {"%", 6}};

  void blanks() {
    while (at_ < text_.size() && std::string_view(" \t\n").find(text_[at_]) != std::string_view::npos) ++at_;
  }

  const Operator* next_operator() {
    blanks();
    for (const Operator& op : kOperators) {
      if (text_.substr(at_).starts_with(op.text)) return &op;
    }
    return nullptr;
  }

  std::optional<int64_t> binary(int level) {
    auto left = unary();
    for (const Operator* op = next_operator(); left && op != nullptr && op->level > level; op = next_operator()) {
      at_ += op->text.size();
      const auto right = binary(op->level);
      if (!right) return std::nullopt;
      left = apply(op->text, *left, *right);
    }
    return left;
  }

  static std::optional<int64_t> apply(std::string_view op, int64_t a, int64_t b) {
    int64_t result = 0;
    if (op == "+") return __builtin_add_overflow(a, b, &result) ? std::nullopt : std::optional(result);
    if (op == "-") return __builtin_sub_overflow(a, b, &result) ? std::nullopt : std::optional(result);
    if (op == "*") return __builtin_mul_overflow(a, b, &result) ? std::nullopt : std::optional(result);
    if (op == "/" || op == "%") {
      if (b == 0 || b == -1) return b == 0 ? std::nullopt : apply("-", 0, op == "/" ? a : 0);
      return op == "/" ? a / b : a % b;
    }
    if (op == "||") return a != 0 || b != 0;
    if (op == "&&") return a != 0 && b != 0;
    if (op == "==") return a == b;
    if (op == "!=") return a != b;
    if (op == "<=") return a <= b;
    if (op == ">=") return a >= b;
    return op == "<" ? a < b : a > b;
  }

  std::optional<int64_t> unary() {
    blanks();
    if (at_ == text_.size() || ++depth_ > 100) return std::nullopt;
    const char c = text_[at_];
    std::optional<int64_t> value;
    if (c == '-' || c == '+' || c == '!') {
      ++at_;
      value = unary();
      if (value) value = c == '-' ? apply("-", 0, *value) : c == '!' ? int64_t{*value == 0} : *value;
    } else if (c == '(') {
      ++at_;
      value = binary(0);
      blanks();
      if (at_ == text_.size() || text_[at_] != ')') return std::nullopt;
      ++at_;
    } else {
      value = leaf();
    }
    --depth_;
    return value;
  }

  std::optional<int64_t> leaf() {
    size_t end = at_;
    const auto plain = [](char c) {
      return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_';
    };
    while (end < text_.size() && plain(text_[end])) ++end;
    const std::string_view word = text_.substr(at_, end - at_);
    at_ = end;
    if (word.empty()) return std::nullopt;
    if (word[0] < '0' || word[0] > '9') return variable_(std::string(word));
    if (word[0] == '0' && word.size() > 1) return std::nullopt;  // octal
    int64_t value = 0;
    const auto [last, error] = std::from_chars(word.data(), word.data() + word.size(), value);
    return error == std::errc() && last == word.data() + word.size() ? std::optional(value) : std::nullopt;
  }

  std::string_view text_;
  const std::function<std::optional<int64_t>(const std::string&)>& variable_;
  size_t at_ = 0;
  int depth_ = 0;
};

// A pattern of case and [[ == ]] with * and ?, against a text.
bool fits_pattern(std::string_view pattern, std::string_view text) {
  size_t p = 0, t = 0, star = std::string_view::npos, from = 0;
  while (t < text.size()) {
    if (p < pattern.size() && pattern[p] == '*') {
      star = p++;
      from = t;
    } else if (p < pattern.size() && (pattern[p] == '?' || pattern[p] == text[t])) {
      ++p;
      ++t;
    } else if (star != std::string_view::npos) {
      p = star + 1;
      t = ++from;
    } else {
      return false;
    }
  }
  while (p < pattern.size() && pattern[p] == '*') ++p;
  return p == pattern.size();
}

}  // namespace

ShellReader::Truth ShellReader::fits(const Letters& pattern, const Letters& text) {
  for (const Letters* part : {&text, &pattern}) {
    if (const std::string* why = reason(*part)) {
      why_ = *why;
      return Truth::kUnknown;
    }
  }
  const std::string plain = plain_text(pattern);
  why_ = fmt::format("the pattern {} is not followed", plain);
  if (plain.find('[') != std::string::npos) return Truth::kUnknown;
  return fits_pattern(plain, plain_text(text)) ? Truth::kTrue : Truth::kFalse;
}

std::optional<int64_t> ShellReader::number(const Letters& text) {
  if (const std::string* why = reason(text)) {
    why_ = *why;
    return std::nullopt;
  }
  why_ = fmt::format("{} is not followed as a number", plain_text(text));
  int nested = 0;
  const std::function<std::optional<int64_t>(const std::string&)> variable =
      [&](const std::string& name) -> std::optional<int64_t> {
    const Value value = this->variable(name);
    const Letters content = value.elements.empty() ? Letters{} : value.elements.front();
    if (const std::string* why = reason(content)) {
      why_ = *why;
      return std::nullopt;
    }
    const std::string inner = plain_text(content);
    if (inner.empty()) return 0;
    if (++nested > 100) return std::nullopt;
    return Arithmetic(inner, variable).whole();
  };
  const std::string plain = plain_text(text);
  return Arithmetic(plain, variable).whole();
}

Letters ShellReader::arithmetic(const Letters& text) {
  const auto value = number(expand(text));
  return value ? letters(fmt::format("{}", *value)) : unknown(why_);
}

// The words between [ and ], or [[ and ]].
ShellReader::Truth ShellReader::test(std::span<const Letters> words) {
  const Within level(*this);
  const auto truth = [](bool is) { return is ? Truth::kTrue : Truth::kFalse; };
  const auto unknown_truth = [this](const std::string& why) {
    why_ = why;
    return Truth::kUnknown;
  };
  for (const bool either : {true, false}) {  // "or" binds less than "and"
    for (size_t i = 1; i + 1 < words.size(); ++i) {
      const std::string op = plain_text(words[i]);
      if (either ? op != "-o" && op != "||" : op != "-a" && op != "&&") continue;
      const Truth first = test(words.first(i)), second = test(words.subspan(i + 1));
      const Truth decides = either ? Truth::kTrue : Truth::kFalse;
      if (first == decides || second == decides) return decides;
      return first == Truth::kUnknown ? first : second;
    }
  }
  if (words.empty()) return Truth::kFalse;
  const std::string first = plain_text(words[0]);
  if (first == "!" && words.size() > 1) {
    const Truth inner = test(words.subspan(1));
    return inner == Truth::kUnknown ? inner : truth(inner == Truth::kFalse);
  }
  if (words.size() == 1) {
    if (const std::string* why = reason(words[0])) return unknown_truth(*why);
    return truth(!words[0].empty());
  }
  if (words.size() == 2) {
    const bool empty = first == "-z";
    if (!empty && first != "-n")
      return unknown_truth(fmt::format("`{} {}` is not followed", first, plain_text(words[1])));
    if (const std::string* why = reason(words[1])) return unknown_truth(*why);
    return truth(words[1].empty() == empty);
  }
  if (words.size() != 3) return unknown_truth("a test is not followed");
  const std::string op = plain_text(words[1]);
  for (const size_t i : {0, 2}) {
    if (const std::string* why = reason(words[i])) return unknown_truth(*why);
  }
  if (op == "=" || op == "==" || op == "!=") {
    const Truth fit = fits(words[2], words[0]);
    return fit == Truth::kUnknown ? fit : truth((fit == Truth::kTrue) != (op == "!="));
  }
  if (op == "<" || op == ">") return truth(op == "<" ? first < plain_text(words[2]) : first > plain_text(words[2]));
  const auto a = number(words[0]), b = number(words[2]);
  if (!a || !b) return Truth::kUnknown;
  if (op == "-eq") return truth(*a == *b);
  if (op == "-ne") return truth(*a != *b);
  if (op == "-lt") return truth(*a < *b);
  if (op == "-le") return truth(*a <= *b);
  if (op == "-gt") return truth(*a > *b);
  if (op == "-ge") return truth(*a >= *b);
  return unknown_truth(fmt::format("`{}` is not followed", op));
}

ShellReader::Truth ShellReader::double_brackets() {
  place_.at += 2;
  std::vector<Letters> words;
  for (;;) {
    skip_blanks();
    if (peek() == '\n') {
      ++place_.at;
    } else if (peek() == '\0') {
      fault("`]]` is missing here");
    } else if (starts("]]")) {
      place_.at += 2;
      break;
    } else if (starts("&&") || starts("||")) {
      words.push_back(letters(place_.source->at(place_.at).c == '&' ? "&&" : "||"));
      place_.at += 2;
    } else if (std::string_view("<>()&|;").find(peek()) != std::string_view::npos) {
      words.push_back(letters(std::string(1, peek())));
      ++place_.at;
    } else {
      // Nothing is split here: an empty value is a word, too.
      words.push_back(value_word());
    }
  }
  return test(words);
}

}  // namespace hearth::config
