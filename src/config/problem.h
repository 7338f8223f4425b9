// SPDX-License-Identifier: Apache-2.0
// A problem of a run file. Problems are collected: a user sees all of them at once.
#pragma once

#include <string>
#include <vector>

#include "base/error.h"

namespace hearth::config {

struct Problem {
  std::string where;  // "run.toml:12", "--set", or the file's name for a missing key
  int line = 0;       // used for sorting; 0: not in the file
  std::string what, fix;
  std::string key;       // may be empty
  std::string why = {};  // mostly empty
  ExitCode code = ExitCode::kUser;
  bool is_rule = false;  // the value is valid, but conflicts with other keys
};

// Throws one error with all problems in the file's order. Does nothing for an empty list. `file_name` may be empty.
void throw_problems(const std::string& file_name, std::vector<Problem> problems);

}  // namespace hearth::config
