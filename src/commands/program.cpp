// SPDX-License-Identifier: Apache-2.0
#include <algorithm>

#include "base/nearest.h"
#include "base/program.h"
#include "base/text.h"
#include "commands/command_line.h"

namespace hearth::commands {
namespace {

std::string version_line(const CommandSet& program) {
#if defined(__clang__)
  const std::string compiler = fmt::format("clang {}.{}.{}", __clang_major__, __clang_minor__, __clang_patchlevel__);
#else
  const std::string compiler = fmt::format("g++ {}.{}.{}", __GNUC__, __GNUC_MINOR__, __GNUC_PATCHLEVEL__);
#endif
  const std::string libraries = program.libraries.empty() ? "" : fmt::format(", {}", program.libraries);
  std::string build = hearth::version_text();  // "0.1.0 (Release, commit 257120cf1a2b)"
  build.pop_back();
  return fmt::format("{} {}, {}{})\n", program.name, build, compiler, libraries);
}

// The commands in groups, in the table's order; a given `first_word` keeps only "first_word ...".
std::string list_commands(const CommandSet& program, std::string_view first_word = {}) {
  size_t width = 0;
  for (const Command& command : program.commands) width = std::max(width, command.name.size());
  std::string text;
  std::string_view group;
  for (const Command& command : program.commands) {
    if (command.hidden) continue;
    if (!first_word.empty() && !command.name.starts_with(fmt::format("{} ", first_word))) continue;
    if (command.group != group) text += fmt::format("\n{}\n", command.group);
    group = command.group;
    text += fmt::format("  {:{}}  {}\n", command.name, width, command.help);
  }
  return text;
}

std::string top_help(const CommandSet& program) {
  return fmt::format(
      "Hearth pre-trains language models, from raw text to a trained model.\n\n"
      "usage: {0} COMMAND [ARGUMENTS]     ({0} COMMAND --help lists its options)\n{1}\n"
      "{0} --version names the build.\n",
      program.name, list_commands(program));
}

[[noreturn]] void unknown_command(const CommandSet& program, const std::vector<std::string>& words) {
  std::vector<std::string> names;
  for (const Command& command : program.commands)
    if (!command.hidden) names.emplace_back(command.name);
  const std::string two = words.size() > 1 ? words[0] + " " + words[1] : words[0];
  std::string meant = nearest(two, names);
  if (meant.empty()) meant = nearest(words[0], names);
  const std::string list = fmt::format("{} --help lists the commands", program.name);
  throw user_error(fmt::format("{} has no command \"{}\"", program.name, words[0].starts_with("-") ? words[0] : two),
                   {}, meant.empty() ? list : fmt::format("did you mean {} {}? {}", program.name, meant, list));
}

bool asks_for_help(const std::string& word) { return word == "--help" || word == "-h" || word == "help"; }

}  // namespace

int run_program(const CommandSet& program, int argc, char** argv) {
  const std::vector<std::string> words(argv + std::min(argc, 1), argv + argc);
  if (words.empty() || asks_for_help(words[0])) {
    fmt::print("{}", top_help(program));
    return static_cast<int>(ExitCode::kDone);
  }
  if (words[0] == "--version") {
    fmt::print("{}", version_line(program));
    return static_cast<int>(ExitCode::kDone);
  }
  std::vector<std::string> seconds;  // words that may follow the first one
  for (const Command& command : program.commands) {
    const std::vector<std::string> name = split(command.name, ' ');
    if (name.front() != words[0]) continue;
    if (name.size() == 1 || (words.size() > 1 && name[1] == words[1])) {
      CommandLine line(std::string(program.name), command, {words.begin() + std::ssize(name), words.end()});
      return command.run(line);
    }
    seconds.push_back(name[1]);
  }
  if (!seconds.empty() && words.size() == 1)
    throw user_error(fmt::format("{} {} needs a second word", program.name, words[0]), {},
                     fmt::format("add one of: {}", join(seconds)));
  if (!seconds.empty() && asks_for_help(words[1])) {
    fmt::print("usage: {} {} COMMAND [ARGUMENTS]\n{}", program.name, words[0], list_commands(program, words[0]));
    return static_cast<int>(ExitCode::kDone);
  }
  unknown_command(program, words);
}

}  // namespace hearth::commands
