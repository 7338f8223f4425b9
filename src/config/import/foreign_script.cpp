// Scripts that start a training: the options of its program, those of its launcher, and the script's variables.
#include <fmt/format.h>

#include <algorithm>
#include <set>

#include "base/text.h"
#include "config/import/foreign.h"
#include "config/import/shell.h"

namespace hearth::config {
namespace {

// The words of a command that starts a training: LAUNCHER... PROGRAM OPTION...
struct Start {
  const ShellCommand* command = nullptr;
  size_t program = 0;  // the first word is an option if there is no program
  bool has_program = true;
  int64_t known = 0;  // options that a trainer has
};

bool is_option(const ShellWord& word) {
  const std::string& text = word.text;
  if (!word.unknown.empty() && text.starts_with('?')) return false;
  const auto letter = [](char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z'); };
  if (text.starts_with("--")) return text.size() > 2 && letter(text[2]);
  return text.size() > 1 && text[0] == '-' && letter(text[1]);
}

std::string option_name(std::string_view text) {
  while (text.starts_with('-')) text.remove_prefix(1);
  std::string name(text.substr(0, text.find('=')));
  std::replace(name.begin(), name.end(), '-', '_');
  return name;
}

std::vector<Start> starts_of(const ShellScript& script, const std::function<bool(std::string_view)>& knows) {
  std::vector<Start> starts;
  for (const ShellCommand& command : script.commands) {
    Start start{&command};
    const auto program = std::find_if(command.words.begin(), command.words.end(), [](const ShellWord& word) {
      return word.text.ends_with(".py") && !word.text.starts_with('-');
    });
    start.program = static_cast<size_t>(program - command.words.begin());
    if (program == command.words.end()) {
      if (!is_option(command.words.front())) continue;
      start.program = 0;
      start.has_program = false;
    }
    for (size_t i = start.program; i < command.words.size(); ++i) {
      if (is_option(command.words[i]) && knows(option_name(command.words[i].text))) ++start.known;
    }
    if (start.known > 0) starts.push_back(start);
  }
  return starts;
}

ForeignValue value_of_words(const std::vector<ShellWord>& words) {
  if (words.empty()) return {true};
  if (words.size() == 1) return words[0].text.empty() ? ForeignValue{std::string()} : plain_scalar(words[0].text);
  ForeignList list;
  for (const ShellWord& word : words) list.push_back(plain_scalar(word.text));
  return {std::move(list)};
}

// An option with the words that follow it.
void add_option(const ShellWord& option, const std::vector<ShellWord>& words, std::string name, const std::string& file,
                std::vector<ForeignKey>& keys) {
  ForeignKey key{std::move(name), value_of_words(words), file, option.line};
  key.shown = option.text.substr(0, option.text.find('='));
  if (words.size() == 1 && words[0].unknown.empty() && words[0].text.starts_with('{')) {
    std::vector<ForeignKey> parts;
    std::vector<Problem> faults;
    read_foreign_yaml(words[0].text, file, parts, faults);
    if (faults.empty()) {
      for (ForeignKey& part : parts) {
        part.shown = fmt::format("{} {}", key.shown, part.name);
        part.name = fmt::format("{}.{}", key.name, part.name);
        part.line = option.line;
        keys.push_back(std::move(part));
      }
      return;
    }
  }
  if (!option.unknown.empty()) key.unknown = option.unknown;
  for (const ShellWord& word : words) {
    if (!word.unknown.empty()) key.unknown = word.unknown;
  }
  keys.push_back(std::move(key));
}

void add_options(const Start& start, const std::string& file, std::vector<ForeignKey>& keys,
                 std::vector<Problem>& problems) {
  const std::vector<ShellWord>& words = start.command->words;
  const auto problem = [&](const ShellWord& word, std::string what, std::string fix) {
    const bool told = std::any_of(problems.begin(), problems.end(),
                                  [&](const Problem& p) { return p.line == word.line && p.what == what; });
    if (!told)
      problems.push_back({fmt::format("{}:{}", file, word.line), word.line, std::move(what), std::move(fix), {}});
  };
  for (size_t i = start.program + (start.has_program ? 1 : 0); i < words.size();) {
    const ShellWord& word = words[i++];
    if (!is_option(word)) {
      if (!word.unknown.empty())
        problem(word, fmt::format("an option is not known: {}", word.unknown),
                "write the options themselves in a copy of the file");
      else if (word.text != "--")
        problem(word, fmt::format("\"{}\" stands where an option is expected", word.text),
                "give the options alone, or the file that is named here");
      continue;
    }
    std::vector<ShellWord> values;
    const size_t equals = word.text.find('=');
    if (equals != std::string::npos) {
      values.push_back({word.text.substr(equals + 1), word.line, word.unknown});
    } else {
      // A word that is not known is the value of an option, and further options behind a value.
      while (i < words.size() && !is_option(words[i]) && words[i].text != "--" &&
             (words[i].unknown.empty() || values.empty()))
        values.push_back(words[i++]);
    }
    add_option(word, values, option_name(word.text), file, keys);
  }
}

// launch.NAME: the options before the program, and launch.program.
void add_launch(const Start& start, const std::string& file, std::vector<ForeignKey>& keys) {
  const std::vector<ShellWord>& words = start.command->words;
  if (!start.has_program) return;
  std::set<std::string> seen;
  for (size_t i = 0; i < start.program;) {
    const ShellWord& word = words[i++];
    if (!is_option(word)) continue;
    std::vector<ShellWord> values;
    const size_t equals = word.text.find('=');
    if (equals != std::string::npos)
      values.push_back({word.text.substr(equals + 1), word.line, word.unknown});
    else if (i < start.program && !is_option(words[i]))
      values.push_back(words[i++]);
    std::string name = "launch." + option_name(word.text);
    if (seen.insert(name).second) add_option(word, values, std::move(name), file, keys);
  }
  const ShellWord& program = words[start.program];
  const std::string name = program.text.substr(program.text.rfind('/') + 1);
  keys.push_back({"launch.program", {name}, file, program.line, "the program"});
}

}  // namespace

void read_foreign_script(std::string_view text, const std::string& file,
                         const std::function<bool(std::string_view)>& knows, std::vector<ForeignKey>& keys,
                         std::vector<std::string>& notes, std::vector<Problem>& problems) {
  ShellScript script;
  try {
    script = read_shell(text);
  } catch (const ShellFault& fault) {
    problems.push_back({fmt::format("{}:{}", file, fault.line),
                        fault.line,
                        fmt::format("this is not a script that can be followed: {}", fault.what),
                        "give the options of the training alone, in a file of their own",
                        {}});
    return;
  }
  std::vector<Start> starts = starts_of(script, knows);
  int64_t most = 0;
  for (const Start& start : starts) most = std::max(most, start.known);
  std::erase_if(starts, [most](const Start& start) { return 2 * start.known < most; });  // prepares data, or tests
  const auto compiles = [](const Start& start) {  // for AWS Neuron, before the training itself
    return start.command->words.front().text.ends_with("neuron_parallel_compile");
  };
  if (!std::all_of(starts.begin(), starts.end(), compiles)) std::erase_if(starts, compiles);
  if (starts.size() > 1) {
    const int first = starts[0].command->line, second = starts[1].command->line;
    problems.push_back({fmt::format("{}:{}", file, second),
                        second,
                        fmt::format("a second training starts here; the first is in line {}", first),
                        "keep one of them in a copy of the file",
                        {}});
    return;
  }
  if (!starts.empty()) {
    add_options(starts.front(), file, keys, problems);
    add_launch(starts.front(), file, keys);
  }
  for (const auto& [name, word] : script.variables) {
    ForeignKey key{"$" + name, word.text.empty() ? ForeignValue{std::string()} : plain_scalar(word.text), file,
                   word.line};
    key.unknown = word.unknown;
    keys.push_back(std::move(key));
  }
  if (!script.defaulted.empty()) {
    std::vector<std::string> names;
    for (const std::string& name : script.defaulted) names.push_back("$" + name);
    notes.push_back(fmt::format("{} was read as it runs without arguments, with its own defaults for {}.", file,
                                join(names, ", ")));
  }
  if (!script.sourced.empty())
    notes.push_back(
        fmt::format("{} also runs the commands of {}, which were not read.", file, join(script.sourced, " and ")));
}

}  // namespace hearth::config
