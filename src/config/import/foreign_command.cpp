// SPDX-License-Identifier: Apache-2.0
// A training's command as keys: the options of its program, those of its launcher, and NAME=value.
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <span>

#include "base/text.h"
#include "config/import/command.h"
#include "config/import/foreign.h"

namespace hearth::config {
namespace {

using Words = std::vector<CommandWord>;
using Span = std::span<const CommandWord>;
using Knows = std::function<bool(std::string_view)>;

bool looks_like_option(std::string_view text) {
  const size_t name = text.starts_with("--") ? 2 : 1;
  return text.starts_with('-') && text.size() > name && is_letter(text[name]);
}
bool is_option(const CommandWord& word) { return looks_like_option(word.text); }

std::string option_name(std::string_view text) {
  while (text.starts_with('-')) text.remove_prefix(1);
  std::string name(text.substr(0, text.find('=')));
  std::replace(name.begin(), name.end(), '-', '_');
  return name;
}

// A command that starts a training: LAUNCHER... PROGRAM OPTION...
struct Start {
  Words words;
  size_t options = 0;   // the first word behind the program; 0: there is no program
  int64_t known = 0;    // options that a trainer has
  Words environment{};  // NAME=value in front of the command inside `bash -c`

  const CommandWord* program() const { return options == 0 ? nullptr : &words[options - 1]; }
  Span launch() const { return Span(words).first(options == 0 ? 0 : options - 1); }
  Span own() const { return Span(words).subspan(options); }
  bool is_deepy() const { return options > 0 && base_name(program()->text).starts_with("deepy"); }
  bool same_as(const Start& other) const {
    return std::equal(words.begin(), words.end(), other.words.begin(), other.words.end(),
                      [](const CommandWord& a, const CommandWord& b) { return a.text == b.text; });
  }
};

// `bash -c TEXT` runs the command of the text.
void unwrap(Start& start) {
  const Words& words = start.words;
  for (size_t i = 0; i + 2 < words.size(); ++i) {
    const std::string_view shell = base_name(words[i].text), option = words[i + 1].text;
    if ((shell != "bash" && shell != "sh") || (option != "-c" && option != "-lc")) continue;
    CommandText inside;
    try {
      inside = read_command_text(words[i + 2].text, /*keep_names=*/true);
    } catch (const CommandFault& fault) {
      throw CommandFault{words[i + 2].line + fault.line - 1, fault.what, fault.script, /*inside=*/true, fault.fix};
    }
    if (inside.commands.size() != 1) continue;
    const int before = words[i + 2].line - 1;
    for (Words* part : {&inside.names, &inside.environment, &inside.commands.front()})
      for (CommandWord& word : *part) word.line += before;
    start.environment = std::move(inside.names);
    start.environment.insert(start.environment.end(), inside.environment.begin(), inside.environment.end());
    Words joined(words.begin(), words.begin() + static_cast<std::ptrdiff_t>(i));
    joined.insert(joined.end(), inside.commands.front().begin(), inside.commands.front().end());
    start.words = std::move(joined);
    return;
  }
}

// Modules of Python that start another program.
bool is_launcher_module(std::string_view name) {
  return name == "torch.distributed.run" || name == "torch.distributed.launch" ||
         name == "accelerate.commands.launch" || name == "deepspeed.launcher.runner" || name == "torchrun";
}

// Finds the program: the first word NAME.py, or NAME of `python -m NAME`; else the word in front of the first option
// that a trainer has.
Start start_of(Words words, const Knows& knows) {
  Start start{std::move(words)};
  unwrap(start);
  const Words& all = start.words;
  bool python = false;
  for (size_t i = 0; i < all.size() && start.options == 0; ++i) {
    const std::string& text = all[i].text;
    const std::string_view name = base_name(text);
    python = python || name.starts_with("python") || name == "torchrun" || name == "accelerate" || name == "deepspeed";
    if ((text == "-m" || text == "--module") && python && i + 1 < all.size()) {
      if (!is_launcher_module(all[++i].text)) start.options = i + 1;
    } else if (text.ends_with(".py") && !text.starts_with('-')) {
      start.options = i + 1;
    }
  }
  const auto is_known = [&knows](const CommandWord& word) { return is_option(word) && knows(option_name(word.text)); };
  if (start.options == 0) {
    const auto first = static_cast<size_t>(std::find_if(all.begin(), all.end(), is_known) - all.begin());
    if (first > 0 && first < all.size() && !all[first - 1].text.starts_with('-') &&
        (first == 1 || !is_option(all[first - 2])))
      start.options = first;
  }
  if (start.options == 0 && std::none_of(all.begin(), all.end(), is_option))
    start.options = all.size();  // ./run_train.sh, which has variables in front of it
  const Span own = start.own();
  start.known = std::count_if(own.begin(), own.end(), is_known);
  return start;
}

// Options whose values each process of a launch expands for itself. They do not change what is trained.
bool is_of_each_process(std::string_view option) {
  constexpr std::array<std::string_view, 8> kNames = {"machine_rank",  "main_process_ip", "main_process_port",
                                                      "node_rank",     "master_addr",     "master_port",
                                                      "rdzv_endpoint", "rdzv_id"};
  return std::find(kNames.begin(), kNames.end(), option_name(option)) != kNames.end();
}

// The first word that only bash knows and that counts, or null.
const CommandWord* unknown_word(const Start& start) {
  const size_t launch = start.launch().size();
  for (size_t i = 0; i < start.words.size(); ++i) {
    const CommandWord& word = start.words[i];
    const CommandWord& option = is_option(word) || i == 0 ? word : start.words[i - 1];
    if (!word.unknown.empty() && (i >= launch || !is_of_each_process(option.text))) return &word;
  }
  return nullptr;
}

// Whether a command that cannot be read may be a training.
bool mentions_option(const Words& words, const Knows& knows) {
  for (const CommandWord& word : words) {
    for (const std::string& part : split(word.text, ' '))
      if (looks_like_option(part) && knows(option_name(part))) return true;
  }
  return false;
}

// A word with what it would be in YAML. Its spelling stays: where a program takes a text, it gets the word itself.
ForeignValue value_of_word(const std::string& word) {
  ForeignValue value = plain_scalar(word);
  if (value.null()) value.is = word;  // nothing, or a text such as null
  value.spelled = word;
  return value;
}

ForeignValue value_of_words(const Words& words) {
  if (words.empty()) return {true};
  if (words.size() == 1) return value_of_word(words[0].text);
  ForeignList list;
  for (const CommandWord& word : words) list.push_back(value_of_word(word.text));
  return {std::move(list)};
}

void add_key(std::string name, ForeignValue value, std::string shown, const std::string& file, int line,
             std::vector<ForeignKey>& keys) {
  keys.push_back({std::move(name), std::move(value), file, line, std::move(shown), /*from_command=*/true});
}

void add_option(const CommandWord& option, const Words& words, std::string name, const std::string& file,
                std::vector<ForeignKey>& keys) {
  add_key(std::move(name), value_of_words(words), option.text.substr(0, option.text.find('=')), file, option.line,
          keys);
}

// The value behind = of option `i`, or the words up to the next option, at most `most` of them. `i` moves behind them.
Words values_of(Span words, size_t& i, size_t most) {
  const CommandWord& option = words[i++];
  const size_t equals = option.text.find('=');
  if (equals != std::string::npos) return {{option.text.substr(equals + 1), option.line}};
  Words values;
  while (i < words.size() && values.size() < most && !is_option(words[i]) && words[i].text != "--")
    values.push_back(words[i++]);
  return values;
}

void add_options(const Start& start, const std::string& file, std::vector<ForeignKey>& keys,
                 std::vector<Problem>& problems) {
  ForeignList named;  // files with keys
  int named_line = 0;
  const Span words = start.own();
  for (size_t i = 0; i < words.size();) {
    const CommandWord& word = words[i];
    if (is_option(word)) {
      const Words values = values_of(words, i, words.size());
      add_option(word, values, option_name(word.text), file, keys);
      continue;
    }
    ++i;
    if (word.text == "--") continue;
    const bool is_file = word.text.ends_with(".json") || word.text.ends_with(".toml") || word.text.ends_with(".yml") ||
                         word.text.ends_with(".yaml");
    if (is_file) {
      named.push_back({word.text});
      named_line = word.line;
    } else {
      problems.push_back(problem_at(file, word.line,
                                    fmt::format("\"{}\" stands where an option is expected", word.text),
                                    "give the options alone, or the file that is named here"));
    }
  }
  if (!named.empty()) add_key("launch.files", {std::move(named)}, "the files", file, named_line, keys);
}

// GPT-NeoX's deepy.py takes a program, a folder and files with keys: "deepy.py train.py -d configs 7B.yml local".
void add_deepy(const Start& start, const std::string& file, std::vector<ForeignKey>& keys) {
  ForeignList named;
  const Span words = start.own();
  for (size_t i = 0; i < words.size(); ++i) {
    const std::string& text = words[i].text;
    if (text == "-d" || text == "--conf_dir")
      ++i;
    else if (!is_option(words[i]) && !text.ends_with(".py"))
      named.push_back({text.ends_with(".yml") ? text : text + ".yml"});
  }
  add_key("launch.files", {std::move(named)}, "the files", file, start.program()->line, keys);
}

// launch.NAME: the options before the program, launch.program, and launch.accelerate where that starts it.
void add_launch(const Start& start, const std::string& file, std::vector<ForeignKey>& keys) {
  const CommandWord* program = start.program();
  if (program == nullptr) return;
  const Span words = start.launch();
  std::vector<ForeignKey> options;
  for (size_t i = 0; i < words.size();) {
    const CommandWord& word = words[i];
    if (!is_option(word)) {
      ++i;
      continue;
    }
    const Words values = values_of(words, i, 1);
    const std::string name = "launch." + option_name(word.text);
    // The last one counts, as in the launchers. If two launchers have the option, the inner one's counts.
    std::erase_if(options, [&name](const ForeignKey& option) { return option.name == name; });
    add_option(word, values, name, file, options);
  }
  keys.insert(keys.end(), options.begin(), options.end());
  const auto is_accelerate = [](const CommandWord& word) {
    return base_name(word.text) == "accelerate" || word.text == "accelerate.commands.launch";
  };
  if (std::any_of(words.begin(), words.end(), is_accelerate))
    add_key("launch.accelerate", {true}, "accelerate launch", file, words.front().line, keys);
  add_key("launch.program", {std::string(base_name(program->text))}, "the program", file, program->line, keys);
}

void add_name(const CommandWord& word, std::string_view begin, const std::string& file, std::vector<ForeignKey>& keys) {
  const size_t equals = word.text.find('=');
  const std::string shown = word.text.substr(0, equals), name = fmt::format("{}{}", begin, shown);
  // The last value counts, as in bash.
  std::erase_if(keys, [&](const ForeignKey& other) { return other.name == name && other.file == file; });
  add_key(name, value_of_word(word.text.substr(equals + 1)), shown, file, word.line, keys);
}

constexpr std::string_view kInside = ", inside the command of `bash -c`";

// A part of a command that stays as it is in a trace, too.
Problem inner_problem(int line, std::string_view what, std::string fix, const std::string& file) {
  return problem_at(file, line, fmt::format("only bash knows a part of this command: {}{}", what, kInside),
                    std::move(fix));
}

Problem script_problem(const CommandFault& fault, std::string_view text, const std::string& file) {
  if (!fault.script)
    return problem_at(file, fault.line,
                      fmt::format("this is not a command: {}{}", fault.what, fault.inside ? kInside : ""),
                      fault.fix.empty() ? "give the whole command" : fault.fix);
  if (fault.inside)
    return inner_problem(fault.line, fault.what,
                         "give the command inside `bash -c` alone, with all values in their places", file);
  const int command = likely_command_line(text);
  return problem_at(
      file, fault.line, fmt::format("this is a script, and scripts are not run here: {}", fault.what),
      fmt::format("give the command with all values in their places, as bash prints it: {}`bash -x {} 2>&1 | tee "
                  "trace.txt` where it trains (or `set -x` in front of that line), then `hearth config import "
                  "trace.txt`; or paste the line alone into a file, or into `hearth config import -`",
                  command > 0 ? fmt::format("line {} looks like it; run ", command) : "run ",
                  file == "stdin" ? "SCRIPT" : file));
}

// The commands that may be the training: those with most of a trainer's options.
std::vector<Start> starts_of(const CommandText& command, const Knows& knows) {
  std::vector<Start> starts;
  for (const Words& words : command.commands) {
    const std::string& first = words.front().text;
    if (command.trace && (first == "echo" || first == "printf" || first == "eval")) continue;
    Start start;
    try {
      start = start_of(words, knows);
    } catch (const CommandFault&) {
      if (!command.trace || mentions_option(words, knows)) throw;
      continue;
    }
    if (start.known == 0 && !start.is_deepy() && command.trace) continue;
    const auto same = [&start](const Start& other) { return start.same_as(other); };
    if (std::none_of(starts.begin(), starts.end(), same)) starts.push_back(std::move(start));
  }
  int64_t most = 0;
  for (const Start& start : starts) most = std::max(most, start.known);
  std::erase_if(starts, [most](const Start& start) { return 2 * start.known < most; });  // prepares data, or tests
  const auto compiles = [](const Start& start) {  // for AWS Neuron, before the training itself
    return start.words.front().text.ends_with("neuron_parallel_compile");
  };
  if (!std::all_of(starts.begin(), starts.end(), compiles)) std::erase_if(starts, compiles);
  return starts;
}

}  // namespace

void read_foreign_command(std::string_view text, const std::string& file, const Knows& knows,
                          std::vector<ForeignKey>& keys, std::vector<Problem>& problems) {
  CommandText command;
  std::vector<Start> starts;
  try {
    command = read_command_text(text);
    starts = starts_of(command, knows);
  } catch (const CommandFault& fault) {
    return problems.push_back(script_problem(fault, text, file));
  }
  if (starts.size() > 1) {
    const int first = starts[0].words.front().line, second = starts[1].words.front().line;
    return problems.push_back(problem_at(file, second,
                                         fmt::format("a second training starts here; the first is in line {}", first),
                                         "keep one of them in a copy of the file"));
  }
  if (starts.empty() && command.trace)
    return problems.push_back(problem_in(file,
                                         "no command of this trace has an option of a trainer that Hearth imports from",
                                         "give the trace of the script that starts the training, up to that command"));
  if (!starts.empty() && starts.front().options == 0 && starts.front().known == 0) {
    const CommandWord& first = starts.front().words.front();
    std::vector<std::string> options;
    for (const CommandWord& word : starts.front().words)
      if (is_option(word)) options.push_back(word.text.substr(0, word.text.find('=')));
    problems.push_back(problem_at(file, first.line,
                                  "no option of this command is one of a trainer that Hearth imports from",
                                  "give the command that starts the training, with its options"));
    problems.back().why = fmt::format("there is {}", join_first(options, 6));
    return;
  }
  if (!starts.empty()) {
    const Start& start = starts.front();
    if (const CommandWord* word = unknown_word(start))
      return problems.push_back(
          inner_problem(word->line, fmt::format("{} stands here", word->unknown),
                        fmt::format("write its value in place of {} in a copy of the command", word->unknown), file));
    start.is_deepy() ? add_deepy(start, file, keys) : add_options(start, file, keys, problems);
    add_launch(start, file, keys);
  }
  for (const CommandWord& word : command.names) add_name(word, "$", file, keys);
  for (const CommandWord& word : command.environment) add_name(word, "env.", file, keys);
  if (!starts.empty())  // the inner ones win
    for (const CommandWord& word : starts.front().environment) add_name(word, "env.", file, keys);
}

}  // namespace hearth::config
