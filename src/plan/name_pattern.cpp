// SPDX-License-Identifier: Apache-2.0
#include "plan/name_pattern.h"

#include <algorithm>

#include "base/error_list.h"
#include "base/nearest.h"

namespace hearth::plan {
namespace {

bool matches_whole(std::string_view pattern, std::string_view name) {
  // The last *, and the end of its match in the name: on a mismatch the * matches one character more.
  size_t p = 0, n = 0, star = std::string_view::npos, taken = 0;
  while (n < name.size()) {
    if (p < pattern.size() && pattern[p] == '*') {
      star = p++;
      taken = n;
    } else if (p < pattern.size() && pattern[p] == name[n]) {
      ++p, ++n;
    } else if (star != std::string_view::npos) {
      p = star + 1;
      n = ++taken;
    } else {
      return false;
    }
  }
  while (p < pattern.size() && pattern[p] == '*') ++p;
  return p == pattern.size();
}

Error matches_nothing(const std::string& pattern, const ParameterPlan& plan, std::string_view key) {
  std::vector<std::string> names;
  for (const Parameter& p : plan.parameters) {
    names.push_back(p.name);
    names.push_back(p.name.substr(0, p.name.find('.')));
  }
  const std::string meant = nearest(pattern, names);
  return user_error(
             fmt::format("{}: \"{}\" matches no parameter", key, pattern),
             "a pattern is a parameter's name or its beginning, such as \"output\", \"layers.3\" or \"*norm*\"",
             meant.empty() ? "`hearth inspect` lists a checkpoint's names" : fmt::format("did you mean {}?", meant))
      .about(std::string(key));
}

}  // namespace

bool matches(std::string_view pattern, std::string_view name) {
  if (matches_whole(pattern, name)) return true;
  for (size_t dot = name.find('.'); dot != std::string_view::npos; dot = name.find('.', dot + 1)) {
    if (matches_whole(pattern, name.substr(0, dot))) return true;
  }
  return false;
}

std::vector<bool> matching_parameters(const std::vector<std::string>& patterns, const ParameterPlan& plan,
                                      std::string_view key) {
  std::vector<bool> result(plan.parameters.size());
  ErrorList errors;
  for (const std::string& pattern : patterns) {
    bool any = false;
    for (size_t i = 0; i < plan.parameters.size(); ++i) {
      if (!matches(pattern, plan.parameters[i].name)) continue;
      result[i] = true;
      any = true;
    }
    if (!any) errors.attempt([&] { throw matches_nothing(pattern, plan, key); });
  }
  errors.throw_if_any(std::string(key));
  return result;
}

std::vector<bool> trained_parameters(const std::vector<std::string>& freeze, const ParameterPlan& plan) {
  std::vector<bool> trained = matching_parameters(freeze, plan, "checkpoint.freeze");
  trained.flip();
  for (size_t i = 0; i < trained.size(); ++i) trained[i] = trained[i] && !plan.parameters[i].is_balanced;
  if (std::find(trained.begin(), trained.end(), true) == trained.end())
    throw user_error("checkpoint.freeze matches every parameter", "there is nothing to train", "freeze fewer")
        .about("checkpoint.freeze");
  return trained;
}

}  // namespace hearth::plan
