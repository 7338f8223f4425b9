// Commands of a script, one after another.
#include "config/import/shell.h"

#include <fmt/format.h>

#include <tuple>
#include <utility>

#include "base/text.h"
#include "config/import/shell_reader.h"

namespace hearth::config {
namespace {

bool is_digit(char c) { return c >= '0' && c <= '9'; }

}  // namespace

// > FILE, 2>&1, << END, and so on.
bool ShellReader::redirection() {
  skip_blanks();
  size_t digits = 0;
  while (is_digit(peek(digits))) ++digits;
  const bool both = peek() == '&' && peek(1) == '>';
  if (!both && peek(digits) != '<' && peek(digits) != '>') return false;
  if (!both && peek(digits + 1) == '(') return false;  // <( ) is a word
  place_.at += both ? 2 : digits + 1;
  const bool here = (*place_.source)[place_.at - 1].c == '<' && peek() == '<' && peek(1) != '<';
  while (std::string_view("<>&|-").find(peek()) != std::string_view::npos && peek() != '\0') ++place_.at;
  skip_blanks();
  std::vector<Letters> words;
  word(words, false);
  if (here) here_.push_back(words.empty() ? "" : plain_text(words.front()));
  return true;
}

// NAME=value, NAME+=value, NAME=( ... ). False, and nothing read, for another word.
bool ShellReader::assignment(bool is_local) {
  const std::string name = name_at();
  if (name.empty()) return false;
  size_t end = name.size();
  bool element = false;
  if (peek(end) == '[') {
    while (peek(end) != ']' && peek(end) != '\n' && peek(end) != '\0') ++end;
    if (peek(end) != ']') return false;
    ++end;
    element = true;
  }
  const bool append = peek(end) == '+' && peek(end + 1) == '=';
  if (!append && peek(end) != '=') return false;
  const int where = line();
  place_.at += end + (append ? 2 : 1);
  Value value;
  if (peek() == '(') {
    ++place_.at;
    value.list = true;
    for (skip_separators(); peek() != ')'; skip_separators()) {
      const size_t before = place_.at;
      word(value.elements, true);
      if (place_.at == before) fault("a ) is missing");
    }
    ++place_.at;
  } else {
    value.elements = {value_word()};
  }
  if (element) value = {false, {unknown(fmt::format("an element of {} is set in line {}", name, where))}};
  if (is_local) shadow(name);
  assign(name, append, std::move(value));
  return true;
}

void ShellReader::shadow(const std::string& name) {
  if (mode_ == Mode::kSkip || !arguments_) return;
  const auto found = variables_.find(name);
  shadowed_.emplace_back(name, found == variables_.end() ? std::nullopt : std::optional(found->second));
}

void ShellReader::assign(const std::string& name, bool append, Value value) {
  if (mode_ == Mode::kSkip) return;
  if (mode_ == Mode::kMaybe) {
    variables_[name] = {false, {unknown(fmt::format("line {} may set {}: {}", line(), name, maybe_))}};
    return;
  }
  Value& held = variables_[name];
  if (!append || held.elements.empty()) {
    held = std::move(value);
    if (held.elements.empty() && !held.list) held.elements = {Letters{}};
    return;
  }
  if (held.list || value.list) {
    held.list = true;
    held.elements.insert(held.elements.end(), value.elements.begin(), value.elements.end());
    return;
  }
  held.elements[0].insert(held.elements[0].end(), value.elements[0].begin(), value.elements[0].end());
  count(held.elements[0].size());
}

ShellReader::Truth ShellReader::simple() {
  std::vector<Letters> words;
  const int where = line();
  bool declares = false, is_local = false;
  for (;;) {
    skip_blanks();
    const char c = peek();
    if (c == '\0' || c == '\n' || c == ';' || c == ')' || c == '|') break;
    if (c == '&' && peek(1) != '>') break;
    if (c == '#') break;
    if (redirection()) continue;
    if ((words.empty() || declares) && assignment(is_local)) continue;
    if (c == '(') {
      if (words.size() != 1 || peek(1) != ')') fault("a ( stands here");
      define_function(plain_text(words.front()));
      return Truth::kAssumed;
    }
    const size_t before = place_.at;
    word(words, true);
    if (place_.at == before) fault(fmt::format("`{}` stands here", c));
    if (words.size() == 1) {
      const std::string first = plain_text(words.front());
      is_local = first == "local" || first == "declare" || first == "typeset";
      declares = is_local || first == "export" || first == "readonly";
    } else if (is_local && arguments_ && plain_text(words.back()).find('-') == std::string::npos) {
      shadow(plain_text(words.back()));
      assign(plain_text(words.back()), false, {false, {Letters{}}});
    }
  }
  if (words.empty() || declares) return Truth::kTrue;
  return mode_ == Mode::kSkip ? Truth::kAssumed : run_simple(words, where);
}

ShellReader::Truth ShellReader::run_simple(std::vector<Letters>& words, int where) {
  const std::string name = plain_text(words.front());
  if (name == ":" || name == "true") return Truth::kTrue;
  if (name == "false") return Truth::kFalse;
  if (name == "[" || name == "test") {
    std::vector<Letters> inside(words.begin() + 1, words.end());
    if (name == "[" && !inside.empty() && plain_text(inside.back()) == "]") inside.pop_back();
    return test(inside);
  }
  if (name == "exit" || name == "return" || name == "break" || name == "continue") {
    if (mode_ != Mode::kRun) return Truth::kAssumed;
    returned_ = true;
    exited_ = name == "exit";
    left_loop_ = name == "break" || name == "continue";
    return Truth::kAssumed;
  }
  if (name == "shift" || (name == "set" && words.size() > 1 && plain_text(words[1]) == "--")) {
    set_arguments(words);
    return Truth::kAssumed;
  }
  if ((name == "source" || name == ".") && words.size() > 1) sourced_.push_back(plain_text(words[1]));
  if (name == "unset") {
    for (size_t i = 1; i < words.size(); ++i) variables_.erase(plain_text(words[i]));
    return Truth::kTrue;
  }
  if (name == "read") {
    for (size_t i = 1; i < words.size(); ++i)
      assign(plain_text(words[i]), false, {false, {unknown(fmt::format("line {} reads it", where))}});
    return Truth::kAssumed;
  }
  if (functions_.contains(name)) {
    call(name, words);
    return Truth::kAssumed;
  }
  if (name == "eval") {
    Letters text;
    for (size_t i = 1; i < words.size(); ++i) {
      text.insert(text.end(), words[i].begin(), words[i].end());
      text.push_back({' ', where});
    }
    run_text(text);
    return Truth::kAssumed;
  }
  for (size_t i = 0; i + 2 < words.size(); ++i) {
    const std::string shell = plain_text(words[i]), option = plain_text(words[i + 1]);
    if ((shell != "bash" && shell != "sh" && !shell.ends_with("/bash") && !shell.ends_with("/sh")) ||
        (option != "-c" && option != "-lc"))
      continue;
    run_in_subshell([&] { run_text(words[i + 2]); });
    return Truth::kAssumed;
  }
  ShellCommand command{where, {}};
  for (const Letters& letters : words) {
    const std::string* why = reason(letters);
    command.words.push_back(
        {plain_text(letters), letters.empty() ? where : letters.front().line, why == nullptr ? "" : *why});
  }
  read_.push_back(std::move(command));
  return Truth::kAssumed;
}

void ShellReader::run_text(const Letters& text) {
  const Within level(*this);
  const Place before = std::exchange(place_, {std::make_shared<const Letters>(text), 0});
  list();
  if (peek() != '\0') fault(fmt::format("`{}` stands here", peek()));
  place_ = before;
}

void ShellReader::call(const std::string& name, std::vector<Letters> words) {
  const Within level(*this);
  words.erase(words.begin());
  const Place before = std::exchange(place_, functions_.at(name));
  auto arguments = std::exchange(arguments_, std::move(words));
  auto shadowed = std::exchange(shadowed_, {});
  command();
  for (auto last = shadowed_.rbegin(); last != shadowed_.rend(); ++last) {
    variables_.erase(last->first);
    if (last->second) variables_[last->first] = std::move(*last->second);
  }
  shadowed_ = std::move(shadowed);
  returned_ = exited_;
  arguments_ = std::move(arguments);
  place_ = before;
}

// `shift [N]` drops arguments, `set -- WORD...` replaces them. The script itself has none to drop.
void ShellReader::set_arguments(const std::vector<Letters>& words) {
  if (plain_text(words[0]) == "set") {
    arguments_ = std::vector<Letters>(words.begin() + 2, words.end());
  } else if (arguments_) {
    const int64_t dropped = words.size() > 1 ? number(words[1]).value_or(0) : 1;
    if (dropped > 0 && dropped <= static_cast<int64_t>(arguments_->size()))  // else bash drops none
      arguments_->erase(arguments_->begin(), arguments_->begin() + dropped);
  }
  if (mode_ != Mode::kMaybe || !arguments_) return;
  for (Letters& argument : *arguments_)
    argument = unknown(fmt::format("line {} may change the arguments: {}", line(), maybe_));
}

void ShellReader::define_function(const std::string& name) {
  const bool named = name_at() == name && !name.empty();
  if (named) place_.at += name.size();
  skip_blanks();
  if (peek() == '(') {
    ++place_.at;
    skip_blanks();
    if (peek() != ')') fault("a ) is missing");
    ++place_.at;
  }
  skip_separators();
  if (name.empty()) fault("a function has no name");
  const Place body = place_;
  if (keyword() != "{" && peek() != '(') fault("a function begins with {");
  in_mode(Mode::kSkip, [&] { command(); });
  if (mode_ != Mode::kSkip) functions_[name] = body;
}

void ShellReader::set(const std::string& name, Letters value) { variables_[name] = {false, {std::move(value)}}; }

void ShellReader::read(Letters script) {
  place_ = {std::make_shared<const Letters>(std::move(script)), 0};
  list();
  if (peek() != '\0') fault(fmt::format("`{}` stands here", keyword().empty() ? std::string(1, peek()) : keyword()));
}

ShellScript ShellReader::result() {
  ShellScript script{std::move(read_), {}, {defaulted_.begin(), defaulted_.end()}, std::move(sourced_)};
  for (const auto& [name, value] : variables_) {
    if (value.list || value.elements.size() != 1) continue;
    const Letters& text = value.elements.front();
    const std::string* why = reason(text);
    script.variables[name] = {plain_text(text), text.empty() ? 0 : text.front().line, why == nullptr ? "" : *why};
  }
  return script;
}

ShellScript read_shell(std::string_view text) {
  Letters script;
  script.reserve(text.size());
  int line = 1;
  for (const char c : text) {
    if (c != '\r') script.push_back({c, line});
    if (c == '\n') ++line;
  }
  ShellReader reader;
  // What Slurm sets for the options in #SBATCH lines.
  line = 0;
  for (const std::string& row : split_lines(std::string(text))) {
    ++line;
    if (!row.starts_with("#SBATCH")) continue;
    for (const auto& [option, letter, variable] :
         {std::tuple{"--nodes", "-N", "SLURM_NNODES"}, std::tuple{"--ntasks", "-n", "SLURM_NTASKS"},
          std::tuple{"--ntasks-per-node", "", "SLURM_NTASKS_PER_NODE"},
          std::tuple{"--gpus-per-node", "", "SLURM_GPUS_PER_NODE"}}) {
      for (const std::string& begin :
           {fmt::format("{}=", option), fmt::format("{} ", option), fmt::format("{} ", letter)}) {
        const size_t at = begin.size() > 1 ? row.find(" " + begin) : std::string::npos;
        if (at == std::string::npos) continue;
        Letters value;
        for (size_t i = at + 1 + begin.size(); i < row.size() && row[i] != ' ' && row[i] != '#'; ++i)
          value.push_back({row[i], line});
        if (std::string_view(variable) == "SLURM_NNODES") reader.set("SLURM_JOB_NUM_NODES", value);
        reader.set(variable, std::move(value));
        break;
      }
    }
  }
  reader.read(std::move(script));
  return reader.result();
}

}  // namespace hearth::config
