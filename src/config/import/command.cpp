// SPDX-License-Identifier: Apache-2.0
#include "config/import/command.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <optional>

#include "base/text.h"
#include "config/import/foreign.h"

namespace hearth::config {
namespace {

// The length of a NAME at the begin of a text.
size_t name_length(std::string_view text) {
  size_t end = 0;
  while (end < text.size() && is_word(text[end]) && (end > 0 || !is_digit(text[end]))) ++end;
  return end;
}

bool is_assignment(std::string_view text) {
  const size_t end = name_length(text);
  return end > 0 && end < text.size() && text[end] == '=';
}

// "+ ", "++ " and so on: bash prints commands so. 0: it is no such line.
size_t trace_mark(std::string_view line) {
  size_t marks = 0;
  while (marks < line.size() && line[marks] == '+') ++marks;
  return marks > 0 && marks < line.size() && line[marks] == ' ' ? marks + 1 : 0;
}

// Words that begin a part of a script.
constexpr std::array<std::string_view, 17> kScriptWords = {"if",    "then",  "else", "elif", "fi",      "for",
                                                           "while", "until", "do",   "done", "case",    "[[",
                                                           "[",     "{",     "esac", "}",    "function"};

// What starts a program that stands behind it.
constexpr std::array<std::string_view, 11> kLaunchers = {"torchrun",
                                                         "accelerate",
                                                         "deepspeed",
                                                         "srun",
                                                         "mpirun",
                                                         "mpiexec",
                                                         "python",
                                                         "python3",
                                                         "eval",
                                                         "exec",
                                                         "neuron_parallel_compile"};

// `bash -x SCRIPT` runs the script: the shell and its flags are passed over.
void pass_over_shell(std::vector<CommandWord>& words) {
  for (auto shell = words.begin(); shell != words.end(); ++shell) {
    const std::string_view name = base_name(shell->text);
    if (name != "sh" && name != "bash") continue;
    const auto script = std::find_if(shell + 1, words.end(), [](const CommandWord& word) {
      return word.text.size() < 2 || word.text[0] != '-' || word.text.find_first_not_of("exuv", 1) != std::string::npos;
    });
    if (script != words.end() && script != shell + 1 && !script->text.starts_with('-')) words.erase(shell, script);
    return;
  }
}

class Reader {
 public:
  Reader(std::string_view text, bool keep_names) : text_(text), keep_names_(keep_names) {}

  CommandText read() {
    CommandText result;
    const std::vector<std::string> lines = split_lines(std::string(text_));
    if (!lines.empty() && lines.front().starts_with("#!")) fault("it begins with #!");
    result.trace = std::any_of(lines.begin(), lines.end(), [](const auto& line) { return trace_mark(line) > 0; });
    result.trace ? read_trace(result) : read_lines(result);
    for (std::vector<CommandWord>& words : result.commands) pass_over_shell(words);
    return result;
  }

 private:
  [[noreturn]] void fault(std::string what) const { throw CommandFault{line_, std::move(what)}; }
  char peek(size_t ahead = 0) const { return at_ + ahead < text_.size() ? text_[at_ + ahead] : '\0'; }
  bool at_end() const { return at_ >= text_.size(); }
  char take() {
    if (text_[at_] == '\n') ++line_;
    return text_[at_++];
  }
  void skip_line() {
    while (!at_end() && peek() != '\n') take();
  }

  void read_trace(CommandText& result) {
    while (!at_end()) {
      const std::string_view rest = text_.substr(at_);
      const size_t mark = trace_mark(rest.substr(0, rest.find('\n')));
      const size_t begin = at_;
      const int line = line_;
      std::vector<CommandWord> words;
      if (mark == 0) {  // what a program printed
        skip_line();
      } else {
        at_ += mark;
        try {
          words = read_words();
        } catch (const CommandFault&) {  // arithmetic and tests, which bash prints as they are written
          at_ = begin;
          line_ = line;
          skip_line();
        }
      }
      if (!at_end()) take();
      if (!words.empty()) result.commands.push_back(std::move(words));
    }
  }

  void read_lines(CommandText& result) {
    bool has_program = false;
    while (!at_end()) {
      std::vector<CommandWord> words = read_words();
      if (!at_end()) take();
      if (words.size() > 1 && words[0].text == "$") words.erase(words.begin());  // a prompt
      if (words.empty()) continue;
      if (std::find(kScriptWords.begin(), kScriptWords.end(), words[0].text) != kScriptWords.end())
        fault_at(words[0], fmt::format("`{}` stands here", words[0].text));
      if (words.size() > 1 && (words[0].text == "export" || words[0].text == "declare")) words.erase(words.begin());
      if (std::all_of(words.begin(), words.end(), [](const CommandWord& word) { return is_assignment(word.text); })) {
        result.names.insert(result.names.end(), words.begin(), words.end());
        continue;
      }
      while (is_assignment(words.front().text)) {
        result.environment.push_back(words.front());
        words.erase(words.begin());
      }
      if (words.front().text.starts_with('-')) {  // options in a line of their own
        if (has_program) fault_behind(words.front());
        if (result.commands.empty()) result.commands.emplace_back();
        std::vector<CommandWord>& last = result.commands.back();
        last.insert(last.end(), words.begin(), words.end());
        continue;
      }
      if (has_program) fault_at(words.front(), fmt::format("a second command stands here, `{}`", words.front().text));
      has_program = true;
      if (!result.commands.empty()) fault_at(words.front(), "a command stands behind its options");
      result.commands.push_back(std::move(words));
    }
  }

  [[noreturn]] static void fault_at(const CommandWord& word, std::string what) {
    throw CommandFault{word.line, std::move(what)};
  }
  [[noreturn]] static void fault_behind(const CommandWord& word) {
    throw CommandFault{word.line,
                       fmt::format("`{}` stands behind the command's end, and bash does not pass it on (a comment or a "
                                   "line without \\ ends it)",
                                   word.text.substr(0, word.text.find('='))),
                       false, false, "write \\ at the end of the line before it, or remove it"};
  }

  // The words up to the end of the line, where \ and quotes continue it.
  std::vector<CommandWord> read_words() {
    std::vector<CommandWord> words;
    while (!at_end() && peek() != '\n') {
      const char c = peek();
      if (c == ' ' || c == '\t' || c == '\r' || (c == '&' && ends_line(1))) {
        take();
      } else if (c == '\\' && (peek(1) == '\n' || (peek(1) == '\r' && peek(2) == '\n'))) {
        while (take() != '\n') {
        }
      } else if (c == '#' || (c == '|' && peek(1) != '|')) {  // after a pipe: what reads the training's output
        skip_line();
      } else if (!redirection()) {
        words.push_back(read_word());
      }
    }
    return words;
  }

  bool ends_line(size_t ahead) const {
    while (peek(ahead) == ' ' || peek(ahead) == '\t' || peek(ahead) == '\r') ++ahead;
    return peek(ahead) == '\n' || peek(ahead) == '\0';
  }

  // > FILE, 2>&1 and so on. << and <( are of a script.
  bool redirection() {
    size_t length = 0;
    while (is_digit(peek(length))) ++length;
    if (length == 0 && peek() == '&' && peek(1) == '>') length = 1;
    const char c = peek(length);
    if (c != '<' && c != '>') return false;
    if (c == '<' && (peek(length + 1) == '<' || peek(length + 1) == '(')) fault("`<` stands here");
    if (c == '>' && peek(length + 1) == '(') fault("`>(` stands here");
    at_ += length + 1;
    while (peek() == '>' || peek() == '&' || peek() == '|') take();
    while (peek() == ' ' || peek() == '\t') take();
    if (!at_end() && peek() != '\n') read_word();
    return true;
  }

  CommandWord read_word() {
    CommandWord word{{}, line_};
    const size_t begin = at_;
    while (!at_end()) {
      const char c = peek();
      if (c == '\n' || c == ' ' || c == '\t' || c == '\r') break;
      if ((c == '>' || c == '<' || c == '|') && at_ > begin) break;
      if (c == '\'') {
        until('\'', "'", [&] { word.text += take(); });
      } else if (c == '"') {
        until('"', "\"", [&] { double_quoted(word); });
      } else if (c == '$' && peek(1) == '\'') {
        take();
        until('\'', "$'", [&] { escaped_quoted(word.text); });
      } else if (c == '\\') {
        if (peek(1) == '\n' || (peek(1) == '\r' && peek(2) == '\n')) {
          while (take() != '\n') {
          }
          continue;
        }
        if (peek(1) != '\0' && ends_line(1))
          throw CommandFault{line_, "a blank follows \\, so bash ends the line here", false, false, "remove the blank"};
        take();
        if (!at_end()) word.text += take();
      } else {
        expansion(word);
        if (c == '(' || c == ')' || c == ';' || c == '&' || c == '|') fault(fmt::format("`{}` stands here", c));
        word.text += take();
      }
    }
    const size_t open = word.text.find('{');
    const std::string_view raw = text_.substr(begin, at_ - begin);
    if (open != std::string::npos && raw.find('\'') == std::string::npos && raw.find('"') == std::string::npos &&
        raw.find('}') != std::string::npos &&
        (raw.find(',') != std::string::npos || raw.find("..") != std::string::npos))
      fault(fmt::format("bash makes several words of {}", raw));
    return word;
  }

  // $NAME or ${NAME} at this place; empty: none stands here.
  std::string_view named_expansion() const {
    const std::string_view rest = text_.substr(at_);
    const bool braces = rest.starts_with("${");
    const size_t begin = braces ? 2 : 1, end = begin + name_length(rest.substr(begin));
    if (end == begin || (braces && (end == rest.size() || rest[end] != '}'))) return {};
    return rest.substr(0, braces ? end + 1 : end);
  }

  // $NAME, $( ), ${ } and ` `: only bash knows what they stand for.
  void expansion(CommandWord& word) const {
    if (peek() == '`') fault("the output of a command stands here, in ` `");
    if (peek() != '$') return;
    if (const std::string_view named = named_expansion(); keep_names_ && !named.empty()) {
      if (word.unknown.empty()) word.unknown = named;
      return;
    }
    const char next = peek(1);
    if (next == '(' && peek(2) == '(') fault("arithmetic stands here, in $(( ))");
    if (next == '(') fault("the output of a command stands here, in $( )");
    if (next == '{')
      fault(fmt::format("{}}} stands here", text_.substr(at_, std::min<size_t>(text_.find('}', at_) - at_, 40))));
    if (is_word(next) && !is_digit(next))
      fault(fmt::format("${} stands here", text_.substr(at_ + 1, name_length(text_.substr(at_ + 1)))));
    if (is_digit(next) || next == '@' || next == '*' || next == '#' || next == '?')
      fault(fmt::format("${} stands here", next));
  }

  // What stands in quotes: `part` takes one or more of its characters. `shown`: how it begins.
  template <typename Part>
  void until(char quote, std::string_view shown, Part part) {
    const int begun = line_;
    take();
    while (!at_end() && peek() != quote) part();
    if (at_end()) throw CommandFault{begun, fmt::format("a {} has no end", shown), false};
    take();
  }

  void double_quoted(CommandWord& word) {
    if (peek() == '\\' && peek(1) == '\n') {
      take(), take();
      return;
    }
    if (peek() == '\\' && std::string_view("\\\"$`").find(peek(1)) != std::string_view::npos && peek(1) != '\0')
      take();
    else
      expansion(word);
    word.text += take();
  }

  // $'...', as bash prints a word with a control character.
  void escaped_quoted(std::string& word) {
    if (peek() != '\\') {
      word += take();
      return;
    }
    take();
    if (at_end()) return;
    constexpr std::string_view kNames = "abefnrtv", kMeant = "\a\b\033\f\n\r\t\v";
    const char c = take();
    if (const size_t known = kNames.find(c); known != std::string_view::npos) {
      word += kMeant[known];
    } else if (c >= '0' && c <= '7') {
      int code = c - '0';
      for (int i = 0; i < 2 && peek() >= '0' && peek() <= '7'; ++i) code = code * 8 + (take() - '0');
      word += static_cast<char>(code);
    } else {
      word += c;
    }
  }

  const std::string_view text_;
  const bool keep_names_;
  size_t at_ = 0;
  int line_ = 1;
};

// Whether a line is "key: value" of YAML.
bool is_yaml_line(std::string_view line) {
  size_t end = line.find_first_of(" \t:");
  if (end == std::string_view::npos || line[0] == '-') return line == "---" || line.starts_with("- ");
  end = line.find(':');
  return end != std::string_view::npos && (end + 1 == line.size() || line[end + 1] == ' ') &&
         line.substr(0, end).find_first_of(" \t=$") == std::string_view::npos;
}

// Whether one of its words is an option: "--lr", "-N".
bool has_option(std::string_view line) {
  for (size_t i = 0; i + 1 < line.size(); ++i) {
    if (line[i] != '-' || (i > 0 && line[i - 1] != ' ' && line[i - 1] != '\t')) continue;
    const size_t name = line[i + 1] == '-' ? i + 2 : i + 1;
    if (name < line.size() && (is_letter(line[name]) || line[name] == '_')) return true;
  }
  return false;
}

}  // namespace

std::string_view without_blanks(std::string_view line) {
  while (!line.empty() && (line.front() == ' ' || line.front() == '\t')) line.remove_prefix(1);
  while (!line.empty() && (line.back() == ' ' || line.back() == '\t' || line.back() == '\r')) line.remove_suffix(1);
  return line;
}

CommandText read_command_text(std::string_view text, bool keep_names) { return Reader(text, keep_names).read(); }

bool is_command_text(std::string_view text) {
  const std::vector<std::string> lines = split_lines(std::string(text));
  if (!lines.empty() && lines.front().starts_with("#!")) return true;
  if (std::any_of(lines.begin(), lines.end(), [](const auto& line) { return trace_mark(line) > 0; })) return true;
  for (const std::string& whole : lines) {
    const std::string_view line = without_blanks(whole);
    if (line.empty() || line.front() == '#') continue;
    if (line.front() == '{' || is_yaml_line(line)) return false;
    const std::string_view named = line.starts_with("export ") ? without_blanks(line.substr(7)) : line;
    if (is_assignment(named) || has_option(line)) return true;
    const std::string_view first = line.substr(0, line.find_first_of(" \t;"));
    if (first.size() < line.size() && std::find(kLaunchers.begin(), kLaunchers.end(), first) != kLaunchers.end())
      return true;
    if (std::find(kScriptWords.begin(), kScriptWords.end(), first) != kScriptWords.end() || first.ends_with("()") ||
        first == "source" || first == "module" || first == "set" || first == "cd" || first == "echo")
      return true;
  }
  return false;
}

int likely_command_line(std::string_view script) {
  int line = 0, begin = 0, found = 0, best = 0;
  bool continues = false;
  for (const std::string& whole : split_lines(std::string(script))) {
    ++line;
    const std::string_view text = without_blanks(whole);
    if (!continues) begin = line;  // of a command in several lines
    continues = text.ends_with('\\');
    if (text.empty() || text.front() == '#' || text.starts_with("echo") || text.starts_with("mkdir")) continue;
    int score = 0;
    if (text.find(".py") != std::string_view::npos || text.find(" -m ") != std::string_view::npos) score += 2;
    const std::string_view first = text.substr(0, text.find_first_of(" \t"));
    for (const std::string_view launcher : kLaunchers) {
      if (first == launcher)
        score += 2;
      else if (text.find(launcher) != std::string_view::npos)
        score += 1;
      if (score > 3) break;
    }
    if (score < 2 || score < best) continue;
    best = score;
    found = begin;
  }
  return found;
}

}  // namespace hearth::config
