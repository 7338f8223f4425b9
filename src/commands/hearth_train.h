// Starts `hearth-train`, which links LibTorch, from `hearth`.
#pragma once

#include <string>
#include <vector>

#include "base/file.h"
#include "commands/command_line.h"

namespace hearth::commands {

// Whether hearth-train is installed.
bool has_hearth_train();

// Replaces this process by `hearth-train` with the same command and arguments. The binary is looked for next to this
// one, then in PATH. Throws user_error if it or one of its libraries is missing.
[[noreturn]] void become_hearth_train(const CommandLine& line);

// The output of `hearth-train WORDS`; empty if it is missing, lacks a library or fails.
std::string output_of_hearth_train(const std::vector<std::string>& words);

}  // namespace hearth::commands
