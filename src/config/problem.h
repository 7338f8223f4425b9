// What is wrong with a run file. Problems are collected, so that a user sees all of them at once.
#pragma once

#include <string>
#include <vector>

#include "base/error.h"

namespace hearth::config {

struct Problem {
  std::string where;  // "run.toml:12", "--set", or the file's name for what is missing
  int line = 0;       // for the order; 0: not in the file
  std::string what, fix;
  std::string key;       // the key it is about; may be empty
  std::string why = {};  // seldom needed
  ExitCode code = ExitCode::kUser;
  bool is_rule = false;  // the key's value is known, and does not go with others
};

// Throws one error with all of them, in the file's order; does nothing for an empty list. `file_name` may be empty.
void throw_problems(const std::string& file_name, std::vector<Problem> problems);

}  // namespace hearth::config
