// SPDX-License-Identifier: Apache-2.0
#include "config/problem.h"

#include <algorithm>

#include "base/error_list.h"

namespace hearth::config {
namespace {

Error error_of(const Problem& problem) {
  const std::string place = problem.where.empty() ? "" : problem.where + ": ";
  return {problem.code, place + problem.what, problem.why, problem.fix};
}

}  // namespace

void throw_problems(const std::string& file_name, std::vector<Problem> problems) {
  if (problems.empty()) return;
  std::stable_sort(problems.begin(), problems.end(), [](const Problem& a, const Problem& b) {
    return (a.line == 0) != (b.line == 0) ? b.line == 0 : a.line < b.line;
  });
  if (problems.size() == 1) throw error_of(problems.front());
  std::vector<Error> errors;
  for (const Problem& problem : problems) errors.push_back(error_of(problem));
  throw Errors(file_name.empty() ? "the run" : file_name, errors);
}

}  // namespace hearth::config
