// Lists of commands, and the commands that say which others run: if, case, loops.
#include <fmt/format.h>

#include <utility>

#include "config/import/shell_reader.h"

namespace hearth::config {

void ShellReader::in_mode(Mode mode, const std::function<void()>& body) {
  const Mode before = mode_;
  const std::string maybe = maybe_;
  if (mode_ == Mode::kSkip || mode == Mode::kSkip)
    mode_ = Mode::kSkip;
  else if (mode == Mode::kMaybe)
    mode_ = mode;
  if (mode == Mode::kMaybe && mode_ == Mode::kMaybe) maybe_ = why_;
  body();
  mode_ = before;
  maybe_ = maybe;
}

ShellReader::Truth ShellReader::list() {
  const Within level(*this);
  Truth truth = Truth::kTrue;
  for (;;) {
    skip_separators();
    if (peek() == '\0' || peek() == ')' || starts(";;")) return truth;
    const std::string word = keyword();
    for (const std::string_view end : {"then", "elif", "else", "fi", "do", "done", "esac", "}"}) {
      if (word == end) return truth;
    }
    if (returned_)
      in_mode(Mode::kSkip, [&] { truth = and_or(); });
    else
      truth = and_or();
  }
}

ShellReader::Truth ShellReader::and_or() {
  Truth truth = pipeline();
  for (;;) {
    skip_blanks();
    const bool both = starts("&&");
    if (!both && !starts("||")) return truth;
    place_.at += 2;
    skip_separators();
    const bool succeeded = truth == Truth::kTrue || truth == Truth::kAssumed;
    const Mode mode = truth == Truth::kUnknown ? Mode::kMaybe : succeeded == both ? Mode::kRun : Mode::kSkip;
    Truth next = truth;
    in_mode(mode, [&] { next = pipeline(); });
    if (mode == Mode::kRun) truth = next;
    if (mode == Mode::kMaybe && next == (both ? Truth::kFalse : Truth::kTrue)) truth = next;
  }
}

ShellReader::Truth ShellReader::pipeline() {
  bool negated = false;
  for (skip_blanks();; skip_blanks()) {
    if (take("!")) {
      negated = !negated;
    } else if (take("time")) {
      skip_blanks();
      if (starts("-p ")) place_.at += 2;
    } else {
      break;
    }
  }
  Truth truth = command();
  for (skip_blanks(); peek() == '|' && peek(1) != '|'; skip_blanks()) {
    place_.at += peek(1) == '&' ? 2 : 1;
    skip_separators();
    truth = command();
    if (truth != Truth::kUnknown) truth = Truth::kAssumed;
  }
  if (!negated || truth == Truth::kUnknown || truth == Truth::kAssumed) return truth;
  return truth == Truth::kTrue ? Truth::kFalse : Truth::kTrue;
}

ShellReader::Truth ShellReader::command() {
  const Within level(*this);
  constexpr size_t kMostCommands = 100'000;
  if (++commands_ > kMostCommands) fault("this script has more than 100,000 commands");
  Truth truth = Truth::kAssumed;
  const std::string word = keyword();
  if (word == "if") {
    truth = if_command();
  } else if (word == "for" || word == "while" || word == "until" || word == "select") {
    loop();
  } else if (word == "case") {
    case_command();
  } else if (word == "function") {
    take(word);
    skip_blanks();
    define_function(name_at());
  } else if (word == "[[") {
    truth = double_brackets();
  } else if (word == "{") {
    take(word);
    list();
    expect("}");
  } else if (starts("((")) {
    const size_t begin = place_.at += 2;
    skip_to(')');
    const auto value = number(expand(between(begin, place_.at - 1)));
    if (peek() == ')') ++place_.at;
    truth = !value ? Truth::kUnknown : *value != 0 ? Truth::kTrue : Truth::kFalse;
  } else if (peek() == '(') {
    ++place_.at;
    run_in_subshell([&] { list(); });
    if (peek() != ')') fault("a ) is missing");
    ++place_.at;
  } else {
    return simple();
  }
  while (redirection()) {
  }
  return truth;
}

ShellReader::Mode ShellReader::mode_if(Truth truth, bool taken_for_sure) {
  if (taken_for_sure || truth == Truth::kFalse) return Mode::kSkip;
  return truth == Truth::kTrue ? Mode::kRun : Mode::kMaybe;
}

ShellReader::Truth ShellReader::if_command() {
  take("if");
  bool taken = false, maybe = false;
  for (;;) {
    Truth truth = Truth::kFalse;
    const int where = line();
    why_.clear();
    in_mode(taken ? Mode::kSkip : Mode::kRun, [&] { truth = list(); });
    expect("then");
    if (truth == Truth::kAssumed || (truth == Truth::kUnknown && why_.empty()))
      why_ = fmt::format("whether the command of `if` in line {} succeeds is not known", where);
    Mode mode = mode_if(truth, taken);
    if (mode == Mode::kRun && maybe) mode = Mode::kMaybe;
    const std::string why = why_;
    in_mode(mode, [&] { list(); });
    why_ = why;
    taken = taken || truth == Truth::kTrue;
    maybe = maybe || mode == Mode::kMaybe;
    skip_separators();
    if (take("elif")) continue;
    if (take("else")) in_mode(taken ? Mode::kSkip : maybe ? Mode::kMaybe : Mode::kRun, [&] { list(); });
    expect("fi");
    return Truth::kAssumed;
  }
}

void ShellReader::loop() {
  const int where = line();
  const std::string kind = keyword();
  take(kind);
  skip_blanks();
  Mode mode = Mode::kMaybe;  // of the body: kSkip and kRun if it is known to run never, or once
  if (kind == "while" || kind == "until") {
    Truth truth = Truth::kUnknown;
    in_mode(Mode::kRun, [&] { truth = list(); });
    if (truth == (kind == "while" ? Truth::kFalse : Truth::kTrue)) mode = Mode::kSkip;
  } else if (starts("((")) {
    place_.at += 2;
    skip_to(')');
    if (peek() == ')') ++place_.at;
  } else {
    const std::string name = name_at();
    if (name.empty()) fault("a loop has no variable");
    place_.at += name.size();
    skip_separators();
    std::vector<Letters> values = arguments_.value_or(std::vector<Letters>{});
    if (take("in")) {
      values.clear();
      for (skip_blanks(); peek() != '\n' && peek() != ';' && peek() != '\0' && peek() != '#'; skip_blanks()) {
        const size_t before = place_.at;
        word(values, true);
        if (place_.at == before) fault(fmt::format("`{}` stands here", peek()));
      }
    }
    // {1..8} and *.sh are several values.
    const bool once = kind == "for" && values.size() == 1 && reason(values[0]) == nullptr &&
                      plain_text(values[0]).find_first_of("{*?[") == std::string::npos;
    mode = values.empty() ? Mode::kSkip : once ? Mode::kRun : Mode::kMaybe;
    if (once)
      assign(name, false, {false, {values[0]}});
    else if (!values.empty())
      assign(name, false, {false, {unknown(fmt::format("it changes in the loop of line {}", where))}});
  }
  why_ = fmt::format("it is in the loop of line {}", where);
  expect("do");
  in_mode(mode, [&] { list(); });
  if (std::exchange(left_loop_, false)) returned_ = exited_;
  expect("done");
}

void ShellReader::case_command() {
  const int where = line();
  take("case");
  skip_blanks();
  const Letters value = value_word();
  expect("in");
  bool taken = false, maybe = false;
  std::string first_why;
  for (;;) {
    skip_separators();
    if (take("esac")) return;
    if (peek() == '(') ++place_.at;
    Truth fits_one = Truth::kFalse;
    std::string why;
    for (;;) {
      skip_blanks();
      const size_t before = place_.at;
      const Letters pattern = value_word();
      const Truth fit = mode_ == Mode::kSkip ? Truth::kFalse : fits(pattern, value);
      if (fit == Truth::kUnknown) why = why_;
      if (fit != Truth::kFalse && fits_one != Truth::kTrue) fits_one = fit;
      skip_blanks();
      if (peek() == ')') break;
      if (peek() != '|' || place_.at == before) fault(fmt::format("the `case` of line {} has a fault here", where));
      ++place_.at;
    }
    ++place_.at;
    Mode mode = mode_if(fits_one, taken);
    if (mode == Mode::kRun && maybe) mode = Mode::kMaybe;
    if (!why.empty()) first_why = first_why.empty() ? why : first_why;
    why_ = first_why;
    in_mode(mode, [&] { list(); });
    taken = taken || fits_one == Truth::kTrue;
    maybe = maybe || mode == Mode::kMaybe;
    skip_separators();
    if (starts(";;")) {
      place_.at += 2;
      while (peek() == '&' || peek() == ';') ++place_.at;
    } else if (keyword() != "esac") {
      fault(fmt::format("the `case` of line {} has no esac", where));
    }
  }
}

void ShellReader::run_in_subshell(const std::function<void()>& body) {
  count(variables_.size());
  const auto variables = variables_;
  const bool returned = returned_, exited = exited_;
  body();
  variables_ = variables;
  returned_ = returned;
  exited_ = exited;
}

}  // namespace hearth::config
