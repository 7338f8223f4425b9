// Words of a script: quotes, and what follows a $.
#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "config/import/shell_reader.h"

namespace hearth::config {
namespace {

constexpr size_t kMostLetters = 1 << 20;  // of all values together
constexpr char kUnknown = '?';

bool ends_word(char c) { return c == '\0' || std::string_view(" \t\n;&|<>()").find(c) != std::string_view::npos; }

void append_letters(Letters& to, const Letters& from) { to.insert(to.end(), from.begin(), from.end()); }

}  // namespace

std::string plain_text(const Letters& letters) {
  std::string text;
  for (const Letter& letter : letters) text += letter.c;
  return text;
}

void ShellReader::count(size_t letters) {
  letters_ += letters + 1;
  if (letters_ > kMostLetters) fault("the values of this script are longer than 1 MiB");
}

Letters ShellReader::letters(std::string_view text) const {
  Letters all;
  for (const char c : text) all.push_back({c, line()});
  return all;
}

Letters ShellReader::unknown(std::string reason) {
  reasons_.push_back(std::move(reason));
  return {{kUnknown, line(), static_cast<int>(reasons_.size()) - 1}};
}

const std::string* ShellReader::reason(const Letters& text) const {
  for (const Letter& letter : text) {
    if (letter.unknown >= 0) return &reasons_[static_cast<size_t>(letter.unknown)];
  }
  return nullptr;
}

void ShellReader::word(std::vector<Letters>& fields, bool split) {
  Letters current;
  bool has = false;
  while (!ends_word(peek()) || starts("<(") || starts(">(")) {
    const char c = peek();
    if (c == '<' || c == '>') {
      add(output(), false, split, current, fields, has);
    } else if (c == '\\') {
      ++place_.at;
      if (peek() == '\n') {
        ++place_.at;
        continue;
      }
      if (peek() == '\0') break;
      current.push_back((*place_.source)[place_.at++]);
      has = true;
    } else if (c == '\'') {
      ++place_.at;
      has = true;
      while (peek() != '\'') {
        if (peek() == '\0') fault("a ' has no end");
        current.push_back((*place_.source)[place_.at++]);
      }
      ++place_.at;
    } else if (c == '"') {
      quoted(current, fields, has);
    } else if (c == '$' || c == '`') {
      add(expansion(), false, split, current, fields, has);
    } else {
      current.push_back((*place_.source)[place_.at++]);
      has = true;
    }
  }
  if (has) {
    count(current.size());
    fields.push_back(std::move(current));
  }
}

// From a " to behind the next. "$@" and "${A[@]}" without elements give no word.
void ShellReader::quoted(Letters& current, std::vector<Letters>& fields, bool& has) {
  ++place_.at;
  bool vanishes = peek() != '"';
  while (peek() != '"') {
    const char c = peek(), next = peek(1);
    if (c == '\0') fault("a \" has no end");
    if (c == '\\' && next == '\n') {
      place_.at += 2;
    } else if (c == '\\' && (next == '$' || next == '`' || next == '"' || next == '\\')) {
      current.push_back((*place_.source)[place_.at + 1]);
      place_.at += 2;
    } else if (c == '$' || c == '`') {
      const Value value = expansion();
      vanishes = vanishes && value.list && !value.joined && value.elements.empty();
      add(value, true, true, current, fields, has);
      continue;
    } else {
      current.push_back((*place_.source)[place_.at++]);
    }
    vanishes = false;
  }
  ++place_.at;
  has = has || !vanishes;
}

void ShellReader::add(const Value& value, bool quoted, bool split, Letters& current, std::vector<Letters>& fields,
                      bool& has) {
  const auto end_field = [&] {
    if (has) fields.push_back(std::exchange(current, {}));
    has = false;
  };
  for (size_t i = 0; i < value.elements.size(); ++i) {
    const Letters& element = value.elements[i];
    count(element.size());
    if (!split || (quoted && value.joined)) {
      if (i > 0) current.push_back({' ', line()});
      append_letters(current, element);
      has = true;
    } else if (quoted) {
      if (i > 0) end_field();
      append_letters(current, element);
      has = true;
    } else {
      if (i > 0) end_field();
      for (const Letter& letter : element) {
        if (letter.unknown < 0 && (letter.c == ' ' || letter.c == '\t' || letter.c == '\n')) {
          end_field();
        } else {
          current.push_back(letter);
          has = true;
        }
      }
    }
  }
}

Letters ShellReader::value_word() {
  std::vector<Letters> fields;
  word(fields, false);
  Letters all;
  for (const Letters& field : fields) append_letters(all, field);
  return all;
}

Letters ShellReader::expand(Letters text) {
  const Place before = std::exchange(place_, {std::make_shared<const Letters>(std::move(text)), 0});
  Letters all;
  std::vector<Letters> fields;
  bool has = false;
  while (peek() != '\0') {
    if (peek() == '$' || peek() == '`') {
      add(expansion(), false, false, all, fields, has);
    } else if (peek() == '"' || peek() == '\'') {
      ++place_.at;
    } else {
      if (peek() == '\\' && peek(1) != '\0') ++place_.at;
      all.push_back((*place_.source)[place_.at++]);
    }
  }
  place_ = before;
  return all;
}

ShellReader::Value ShellReader::output_of(std::string command) {
  if (command == "pwd") return {false, {letters(".")}};
  constexpr size_t kLongest = 60;
  if (command.size() > kLongest) command = command.substr(0, kLongest) + "...";
  return {false, {unknown(fmt::format("it is the output of a command, `{}`", command))}};
}

ShellReader::Value ShellReader::output() {
  const size_t begin = place_.at += 2;
  skip_to(')');
  return output_of(plain_text(between(begin, place_.at - 1)));
}

ShellReader::Value ShellReader::expansion() {
  if (++depth_ > 100) fault("values are nested too deeply");
  const size_t begin = place_.at;
  Value value{false, {letters("$")}};
  if (peek() == '`') {
    ++place_.at;
    while (peek() != '`') {
      if (peek() == '\0') fault("a ` has no end");
      place_.at += peek() == '\\' && peek(1) != '\0' ? 2 : 1;
    }
    value = output_of(plain_text(between(begin + 1, place_.at++)));
  } else if (starts("$((")) {
    place_.at += 2;
    skip_to(')');
    value = {false, {mode_ == Mode::kSkip ? Letters{} : arithmetic(between(begin + 3, place_.at - 2))}};
  } else if (starts("$(")) {
    value = output();
  } else if (starts("${")) {
    place_.at += 2;
    value = braces();
  } else {
    ++place_.at;
    const std::string name = name_at();
    const char c = peek();
    if (!name.empty()) {
      place_.at += name.size();
      value = variable(name);
      if (value.list) value = {false, {value.elements.empty() ? Letters{} : value.elements.front()}};
    } else if ((c >= '0' && c <= '9') || std::string_view("@*#?$!-").find(c) != std::string_view::npos) {
      if (c != '\0') {
        ++place_.at;
        value = positional(c);
      }
    } else if (c == '\'') {
      value = {};  // $'...': the quote follows
    }
  }
  --depth_;
  return value;
}

ShellReader::Value ShellReader::positional(char c) {
  const std::vector<Letters> given = arguments_.value_or(std::vector<Letters>{});
  if (c == '@' || c == '*') return {true, given, c == '*'};
  if (c == '#') return {false, {letters(fmt::format("{}", given.size()))}};
  if (c == '0' || c < '0' || c > '9')
    return {false, {unknown(fmt::format("${} is known only when the script runs", c))}};
  const auto index = static_cast<size_t>(c - '1');
  if (index < given.size()) return {false, {given[index]}};
  if (arguments_) return {false, {Letters{}}};
  return {false, {unknown(fmt::format("it is ${}, an argument of the script", c))}};
}

ShellReader::Value ShellReader::variable(const std::string& name) {
  const auto found = variables_.find(name);
  if (found != variables_.end()) return found->second;
  if (name == "HOME") return {false, {letters("~")}};
  if (name == "PWD") return {false, {letters(".")}};
  return {false, {unknown(fmt::format("it depends on ${}, which the script does not set", name))}};
}

ShellReader::Value ShellReader::braces() {
  const bool length = peek() == '#' && peek(1) != '}';
  if (length) ++place_.at;
  std::string name = name_at();
  char number = 0;
  if (name.empty()) {
    number = peek();
    ++place_.at;
  }
  place_.at += name.size();
  bool all = false, joined = false;
  std::optional<int64_t> index;
  if (peek() == '[') {
    const size_t begin = ++place_.at;
    while (peek() != ']') {
      if (peek() == '\0') fault("a ] is missing");
      ++place_.at;
    }
    const Letters text = between(begin, place_.at++);
    all = plain_text(text) == "@" || plain_text(text) == "*";
    joined = plain_text(text) == "*";
    if (!all) index = this->number(expand(text)).value_or(-1);
  }
  const size_t begin = place_.at;
  skip_to('}');
  Letters operand = between(begin, place_.at - 1);
  const std::string rest = plain_text(operand);
  const bool is_set = number == 0 ? variables_.contains(name) || name == "HOME" || name == "PWD"
                                  : arguments_ && number >= '1' && number <= '9' &&
                                        static_cast<size_t>(number - '1') < arguments_->size();
  Value value;
  if (number != 0 || is_set || rest.empty() || rest[0] == '#' || rest[0] == '%' || rest[0] == '/')
    value = number == 0 ? variable(name) : positional(number);
  if (index) {
    const bool there = *index >= 0 && static_cast<size_t>(*index) < value.elements.size();
    value = {false,
             {there ? value.elements[static_cast<size_t>(*index)]
                    : unknown(fmt::format("it is an element of {} that is not known", name))}};
  } else if (!all && value.list && number == 0) {
    value = {false, {value.elements.empty() ? Letters{} : value.elements.front()}};
  }
  if (length) {
    const std::string* why = all || value.elements.empty() ? nullptr : reason(value.elements.front());
    if (why != nullptr) return {false, {unknown(*why)}};
    const size_t size = all ? value.elements.size() : value.elements.empty() ? 0 : value.elements.front().size();
    return {false, {letters(fmt::format("{}", size))}};
  }
  value.joined = value.joined || joined;
  return operand.empty() ? value
                         : substituted(number == 0 ? name : std::string(1, number), is_set, value, std::move(operand));
}

// ${NAME:-word} and its like: `operand` is what follows the name.
ShellReader::Value ShellReader::substituted(const std::string& name, bool is_set, const Value& value, Letters operand) {
  const bool argument = name[0] >= '0' && name[0] <= '9';
  const auto itself = [&] { return argument ? positional(name[0]) : variable(name); };
  const std::string rest = plain_text(operand);
  const bool colon = rest[0] == ':';
  const char op = rest.size() > (colon ? 1 : 0) ? rest[colon ? 1 : 0] : '\0';
  if (op != '-' && op != '=' && op != '+' && op != '?')
    return {false, {unknown(fmt::format("${{{}{}}} is not followed", name, rest))}};
  operand.erase(operand.begin(), operand.begin() + (colon ? 2 : 1));
  const bool empty =
      colon && is_set && (value.elements.empty() || (value.elements.size() == 1 && value.elements[0].empty()));
  if (op == '+')
    return is_set && !empty     ? Value{false, {expand(std::move(operand))}}
           : is_set || argument ? Value{false, {Letters{}}}
                                : variable(name);
  if (is_set && !empty) return value;
  if (op == '?') return itself();
  if (mode_ == Mode::kSkip) return {false, {Letters{}}};
  defaulted_.insert(name);
  Letters standard = expand(std::move(operand));
  if (op == '=' && !argument) assign(name, false, {false, {standard}});
  return {false, {std::move(standard)}};
}

}  // namespace hearth::config
