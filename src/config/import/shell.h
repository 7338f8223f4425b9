// Shell scripts that start a training: their commands and variables, read without running anything.
//
// What is followed: quotes, \, comments, VAR=value, VAR+=value, export, arrays, $VAR, ${VAR}, ${VAR:-word}, ${A[@]},
// $(( )), functions, eval, bash -c, and if, case, && and || with simple tests on known values. The script has no
// arguments of its own. #SBATCH lines give Slurm's variables. What a program prints, files and the environment are not
// known: values that depend on them have the reason in place of a text.
#pragma once

#include <map>
#include <string>
#include <string_view>
#include <vector>

namespace hearth::config {

struct ShellWord {
  std::string text;
  int line = 0;           // where its first character stands
  std::string unknown{};  // why it is not known; `text` has a ? then; empty: it is known
};

struct ShellCommand {
  int line = 0;
  std::vector<ShellWord> words;
};

struct ShellScript {
  std::vector<ShellCommand> commands;          // those that run or may run, in their order
  std::map<std::string, ShellWord> variables;  // at the end, but arrays
  std::vector<std::string> defaulted;          // variables of the environment whose defaults ${VAR:-word} were taken
  std::vector<std::string> sourced;            // files whose commands would run too, and are not read
};

// Throws ShellFault for a text that is no script: a quote without an end, an `if` without `fi`, values beyond 1 MiB.
struct ShellFault {
  int line;
  std::string what;
};
ShellScript read_shell(std::string_view text);

}  // namespace hearth::config
