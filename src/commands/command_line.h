// The command line of both binaries. A command is one row of a table and one function, straight down:
//
//   int data_build(CommandLine& line) {
//     Path out;
//     std::vector<Path> sources;
//     line.positional("PATH", &sources, "files or folders of text");
//     line.option("--out", "DIR", &out, "folder to make").required();
//     if (!line.parse()) return 0;  // --help was asked for, and printed
//     ...
//     return 0;
//   }
//
// A variable's value at its declaration is its default, and --help shows it. All errors of the user are thrown as
// user_error (exit code 2). The library below is CLI11; commands do not include it.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include "base/file.h"

namespace hearth::commands {

class CommandLine;
struct TorchCommands;  // commands.h

// A row of the table of commands.
struct Command {
  std::string_view group;    // heading in the list of commands
  std::string_view name;     // as typed after the program's name: one word or two ("data build")
  std::string_view help;     // one line, lower case, no full stop
  std::string_view example;  // without the program's name; one line per example
  int (*run)(CommandLine& line);
  int (*TorchCommands::*torch)(CommandLine& line) = nullptr;  // hearth-train's function; null: it has no such command
  bool hidden = false;                                        // for programs: it is not in the list of commands
};

// One argument of a command.
class Argument {
 public:
  // A flag (bool) is given or not. A vector takes the option several times, or all remaining positionals.
  using Target = std::variant<bool*, std::string*, Path*, int64_t*, uint64_t*, double*, std::vector<std::string>*,
                              std::vector<Path>*, std::vector<int64_t>*>;

  Argument& required();                                 // the default of positionals
  Argument& optional();                                 //
  Argument& range(double least, double most = 1e300);   // for numbers, both included
  Argument& choices(std::vector<std::string> allowed);  // for strings

 private:
  friend class CommandLine;
  Argument(std::string name, std::string value_name, Target target, std::string help);
  bool positional() const { return name_.front() != '-'; }
  bool repeated() const;
  std::string heading() const;       // "--out DIR", "PATH..."
  std::string default_text() const;  // empty: no default is shown
  void assign(const std::vector<std::string>& given) const;
  void assign_one(const std::string& text) const;

  std::string name_, value_name_, help_;
  Target target_;
  bool required_;
  std::optional<double> least_, most_;
  std::vector<std::string> choices_;
};

class CommandLine {
 public:
  // `program` is "hearth" or "hearth-train"; `arguments` are the words after the command's name.
  CommandLine(std::string program, const Command& command, std::vector<std::string> arguments);

  // Each returns a reference that is valid until the next declaration.
  template <typename T>
  Argument& positional(std::string name, T* value, std::string help) {
    return add(std::move(name), {}, value, std::move(help));
  }
  template <typename T>
  Argument& option(std::string name, std::string value_name, T* value, std::string help) {
    return add(std::move(name), std::move(value_name), value, std::move(help));
  }
  Argument& flag(std::string name, bool* value, std::string help) {
    return add(std::move(name), {}, value, std::move(help));
  }

  // What to do instead of an option that other programs have, and this command does not: for the error.
  void elsewhere(std::vector<std::string> options, std::string instead) {
    elsewhere_.emplace_back(std::move(options), std::move(instead));
  }
  // Adds text to --help, before the example.
  void append(std::string text) { appended_.push_back(std::move(text)); }

  // Fills the variables. False if --help was given: the help is printed, and the command ends.
  [[nodiscard]] bool parse();

  // After parse(): whether `option` was given, with any value.
  bool given(std::string_view option) const;

  std::string help() const;
  std::string_view command() const { return command_.name; }
  const std::vector<std::string>& arguments() const { return arguments_; }  // as given

 private:
  Argument& add(std::string name, std::string value_name, Argument::Target target, std::string help);
  std::string usage() const;
  // What to write instead of a word that the command does not take; empty: nothing is near.
  std::string meant_by(const std::string& word, const std::vector<std::vector<std::string>>& given) const;

  std::string program_;
  const Command& command_;
  std::vector<std::string> arguments_;
  std::vector<Argument> declared_;
  std::vector<std::string> given_;  // names
  std::vector<std::string> appended_;
  std::vector<std::pair<std::vector<std::string>, std::string>> elsewhere_;
};

struct Program {
  std::string_view name;       // "hearth"
  std::string_view libraries;  // for --version: "LibTorch 2.11.0"; may be empty
  std::span<const Command> commands;
};

// main() of both binaries: lists the commands, prints the version, or runs the command in argv and returns its exit
// code. Throws the command's exceptions.
int run_program(const Program& program, int argc, char** argv);

}  // namespace hearth::commands
