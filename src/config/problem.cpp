#include "config/problem.h"

#include <algorithm>

#include "base/error.h"

namespace hearth::config {

void throw_problems(const std::string& file_name, std::vector<Problem> problems) {
  if (problems.empty()) return;
  std::stable_sort(problems.begin(), problems.end(), [](const Problem& a, const Problem& b) {
    return (a.line == 0) != (b.line == 0) ? b.line == 0 : a.line < b.line;
  });
  if (problems.size() == 1) {
    const Problem& only = problems.front();
    throw user_error(fmt::format("{}: {}", only.where, only.what), {}, only.fix);
  }
  std::string text = fmt::format("{} has {} errors", file_name, problems.size());
  for (const Problem& problem : problems) {
    text += fmt::format("\n  {}: {}", problem.where, problem.what);
    if (!problem.fix.empty()) text += fmt::format("\n      fix: {}", problem.fix);
  }
  throw user_error(text);
}

}  // namespace hearth::config
