// SPDX-License-Identifier: Apache-2.0
// The command line of both binaries. A command is one row of a table and one function, straight down:
//
//   int data_build(CommandLine& line) {
//     Path out;
//     int64_t threads = 0;
//     std::vector<Path> sources;
//     line.positional("PATH", &sources, "files or folders of text");
//     line.option("--out DIR", &out, "folder to make").required();
//     line.option("--threads N", &threads, within(0, 4096), "shards at a time; 0: one per core");
//     if (!line.parse()) return 0;  // --help was asked for, and printed
//     ...
//     return 0;
//   }
//
// A variable's value at its declaration is its default, and --help shows it. A vector is empty then. All errors of the
// user are thrown as user_error (exit code 2). The library below is CLI11; commands do not include it.
#pragma once

#include <fmt/format.h>

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include "base/error.h"
#include "base/file.h"

namespace hearth::commands {

class CommandLine;
struct TorchCommands;  // commands.h

// The body of a command. Returns the exit code.
using CommandBody = int(CommandLine& line);

// A row of the table of commands.
struct Command {
  std::string_view group;    // heading in the list of commands
  std::string_view name;     // as typed after the program's name: one word or two ("data build")
  std::string_view help;     // one line, lower case, no full stop
  std::string_view example;  // without the program's name; one line per example
  CommandBody* run;
  CommandBody* TorchCommands::*torch = nullptr;  // hearth-train's function; null: it has no such command
  bool hidden = false;                           // for programs: it is not in the list of commands
};

// The values that an argument may have. Without any limit: all values of its type.
struct Allowed {
  std::optional<double> least{}, most{};  // for numbers, both included
  std::vector<std::string> choices{};     // for strings
};
inline Allowed at_least(double least) { return {.least = least}; }
inline Allowed within(double least, double most) { return {.least = least, .most = most}; }
inline Allowed one_of(std::vector<std::string> choices) { return {.choices = std::move(choices)}; }

// One argument of a command.
class Argument {
 public:
  // A bool is a flag without a value. A vector takes an option several times, or all remaining positionals.
  using Target = std::variant<bool*, std::string*, Path*, int64_t*, uint64_t*, double*, std::vector<std::string>*,
                              std::vector<Path>*, std::vector<int64_t>*>;

  void required() { required_ = true; }   // the default of positionals
  void optional() { required_ = false; }  // the default of options

 private:
  friend class CommandLine;
  Argument(std::string spec, Target target, Allowed allowed, std::string help);
  bool positional() const { return spec_.front() != '-'; }
  bool is_flag() const { return std::holds_alternative<bool*>(target_); }
  bool repeated() const;
  std::string name() const { return spec_.substr(0, spec_.find(' ')); }  // "--out"
  std::string heading() const { return positional() && repeated() ? spec_ + "..." : spec_; }
  std::string default_text() const;  // empty: no default is shown
  std::string row_text() const;      // for --help: the help, and the choices and the default if it does not say them
  void assign(const std::vector<std::string>& given) const;
  void assign_one(const std::string& text) const;

  std::string spec_, help_;  // "--out DIR", "PATH"
  Target target_;
  Allowed allowed_;
  bool required_;
};

class CommandLine {
 public:
  // `program` is "hearth" or "hearth-train"; `arguments` are the words after the command's name.
  CommandLine(std::string program, const Command& command, std::vector<std::string> arguments)
      : program_(std::move(program)), command_(command), arguments_(std::move(arguments)) {}

  // Each returns a reference that is valid until the next declaration.
  Argument& positional(std::string name, Argument::Target value, std::string help) {
    return option(std::move(name), value, {}, std::move(help));
  }
  // `spec`: the option and its value's name, as in "--out DIR".
  Argument& option(std::string spec, Argument::Target value, std::string help) {
    return option(std::move(spec), value, {}, std::move(help));
  }
  Argument& option(std::string spec, Argument::Target value, Allowed allowed, std::string help);
  Argument& flag(std::string name, bool* value, std::string help) {
    return option(std::move(name), value, {}, std::move(help));
  }

  // For options that other programs have and this command lacks: what the error tells the user to do instead.
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
  std::string usage() const;
  // The hint of the error about a word that the command does not take: what to write instead. Empty: no hint.
  std::string meant_by(const std::string& word, const std::vector<std::vector<std::string>>& given) const;

  std::string program_;
  const Command& command_;
  std::vector<std::string> arguments_;
  std::vector<Argument> declared_;
  std::vector<std::string> given_;  // names
  std::vector<std::string> appended_;
  std::vector<std::pair<std::vector<std::string>, std::string>> elsewhere_;
};

struct CommandSet {
  std::string_view name;       // "hearth"
  std::string_view libraries;  // for --version: "LibTorch 2.11.0"; may be empty
  std::span<const Command> commands;
};

// main() of both binaries: lists the commands, prints the version, or runs the command in argv and returns its exit
// code. Throws the command's exceptions.
int run_program(const CommandSet& program, int argc, char** argv);

}  // namespace hearth::commands
