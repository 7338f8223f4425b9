// SPDX-License-Identifier: Apache-2.0
// Starts `hearth-train`, which links LibTorch, from `hearth`.
#pragma once

#include "commands/command_line.h"

namespace hearth::commands {

// Whether hearth-train is installed.
bool has_hearth_train();

// Replaces this process by `hearth-train` with the same command and arguments. The binary is looked for next to this
// one, then in PATH. Throws user_error if it or one of its libraries is missing.
[[noreturn]] void become_hearth_train(const CommandLine& line);

// The whole function of a command that hearth-train executes. `options_of` declares, parses and checks the options
// (torch_options.h), so that mistakes are found in milliseconds.
template <auto options_of>
int check_and_become(CommandLine& line) {
  if (!options_of(line)) return 0;
  become_hearth_train(line);
}

// The output of `hearth-train WORDS`; empty if it is missing, lacks a library or fails.
std::string output_of_hearth_train(const std::vector<std::string>& words);

}  // namespace hearth::commands
