// SPDX-License-Identifier: Apache-2.0
// Runs another program to its end, with a time limit, and ends it when the user interrupts this program.
#pragma once

#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "base/file.h"

namespace hearth::hub {

struct Process {
  std::vector<std::string> words;         // program and arguments; the program is a path
  std::vector<std::string> settings;      // "NAME=value": they replace those of this process
  double timeout_s = 0;                   // 0: no limit
  std::function<void()> while_it_runs{};  // called about five times a second; may be empty
};

struct Outcome {
  int exit_code = -1;  // 128 + signal if killed
  bool timed_out = false;
  std::string output, errors;  // stdout and stderr
};

// The program has its own process group and no input. It ends with this process, even if this one is killed. Throws an
// Error with kAskedToLeave after SIGINT or SIGTERM, when the program has ended; system_error if it cannot be started.
Outcome run_process(const Process& process);

// The program `name` in PATH; an empty path if there is no such program.
Path find_program(std::string_view name);

}  // namespace hearth::hub
