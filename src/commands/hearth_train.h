// The way from `hearth` to `hearth-train`, which links LibTorch.
#pragma once

#include <string>
#include <vector>

#include "base/file.h"
#include "commands/command_line.h"

namespace hearth::commands {

// Whether it is there to be run.
bool has_hearth_train();

// Replaces this process by `hearth-train` with the same command and arguments. The binary is looked for beside this
// one, then in PATH; throws user_error when it is not there or a library that it needs is missing.
[[noreturn]] void become_hearth_train(const CommandLine& line);

// What `hearth-train WORDS` prints; empty where it is not there, a library is missing or it fails.
std::string output_of_hearth_train(const std::vector<std::string>& words);

}  // namespace hearth::commands
