#include <fmt/format.h>

#include <algorithm>

#include "base/error.h"
#include "base/nearest.h"
#include "base/program.h"
#include "base/text.h"
#include "commands/command_line.h"

namespace hearth::commands {
namespace {

std::string version_text(const Program& program) {
#if defined(__clang__)
  const std::string compiler = fmt::format("clang {}.{}.{}", __clang_major__, __clang_minor__, __clang_patchlevel__);
#else
  const std::string compiler = fmt::format("g++ {}.{}.{}", __GNUC__, __GNUC_MINOR__, __GNUC_PATCHLEVEL__);
#endif
  const std::string build = std::string_view(HEARTH_BUILD).empty() ? "no build type" : HEARTH_BUILD;
  const std::string libraries = program.libraries.empty() ? "" : fmt::format(", {}", program.libraries);
  return fmt::format("{} {} ({}, commit {}, {}{})\n", program.name, HEARTH_VERSION, build, source_commit(), compiler,
                     libraries);
}

// The commands in groups, in the table's order; a given `first_word` keeps only "first_word ...".
std::string list_commands(const Program& program, std::string_view first_word = {}) {
  std::vector<Row> rows;
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

std::string top_help(const Program& program) {
  return fmt::format(
      "Hearth pre-trains language models, from raw text to a trained model.\n\n"
      "usage: {0} COMMAND [ARGUMENTS]     ({0} COMMAND --help lists its options)\n{1}\n"
      "{0} --version names the build.\n",
      program.name, list_commands(program));
}

[[noreturn]] void unknown_command(const Program& program, const std::vector<std::string>& words) {
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

int run_program(const Program& program, int argc, char** argv) {
  const std::vector<std::string> words(argv + std::min(argc, 1), argv + argc);
  if (words.empty() || asks_for_help(words[0])) {
    fmt::print("{}", top_help(program));
    return static_cast<int>(ExitCode::kDone);
  }
  if (words[0] == "--version") {
    fmt::print("{}", version_text(program));
    return static_cast<int>(ExitCode::kDone);
  }
  bool first_of_two = false;
  for (const Command& command : program.commands) {
    const size_t space = command.name.find(' ');
    const size_t length = space == std::string_view::npos ? 1 : 2;
    if (command.name.substr(0, space) != words[0]) continue;
    if (length == 2 && (words.size() < 2 || command.name.substr(space + 1) != words[1])) {
      first_of_two = true;
      continue;
    }
    CommandLine line(std::string(program.name), command,
                     std::vector<std::string>(words.begin() + static_cast<std::ptrdiff_t>(length), words.end()));
    return command.run(line);
  }
  if (first_of_two && words.size() > 1 && asks_for_help(words[1])) {
    fmt::print("usage: {} {} COMMAND [ARGUMENTS]\n{}", program.name, words[0], list_commands(program, words[0]));
    return static_cast<int>(ExitCode::kDone);
  }
  if (first_of_two && words.size() == 1) {
    std::vector<std::string> seconds;
    for (const Command& command : program.commands) {
      if (command.name.starts_with(words[0] + " ")) seconds.emplace_back(command.name.substr(words[0].size() + 1));
    }
    throw user_error(fmt::format("{} {} needs a second word", program.name, words[0]), {},
                     fmt::format("add one of: {}", join(seconds)));
  }
  unknown_command(program, words);
}

}  // namespace hearth::commands
