// SPDX-License-Identifier: Apache-2.0
// The places of keys and the problems of a run file, and its text: load.h.
#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "base/error.h"
#include "config/load.h"

namespace hearth::config {

Origin LoadResult::origin(std::string_view name) const {
  const auto found = origins.find(name);
  if (found != origins.end()) return found->second;
  const std::string_view section = name.substr(0, name.find('.'));
  const bool in_list =
      std::any_of(lists().begin(), lists().end(), [&](const List& list) { return list.section() == section; });
  HEARTH_CHECK(in_list || find_field(name) != nullptr, "{}", name);
  return {};
}

std::string LoadResult::where(std::string_view name) const {
  const Origin at = origin(name);
  if (at.kind == Origin::Kind::kFile) return fmt::format("{}:{}", file_name, at.line);
  return at.kind == Origin::Kind::kSet || file_name.empty() ? "--set" : file_name;
}

bool LoadResult::has_problem(std::string_view name, bool typed) const {
  return std::any_of(problems.begin(), problems.end(), [&](const Problem& problem) {
    const bool about = problem.key == name || problem.key.starts_with(std::string(name) + ".");
    return about && !(typed && problem.is_rule);
  });
}

RunConfig for_publication(const RunConfig& config) {
  RunConfig kept;
  kept.model = config.model;
  kept.objective = config.objective;
  kept.optimizer = config.optimizer;
  kept.lr_scheduler = config.lr_scheduler;
  kept.training = config.training;
  kept.training.token_weights.clear();
  return kept;
}

std::string to_toml(const RunConfig& config) {
  std::string text;
  for (const Entry& entry : entries(config)) {
    const std::string heading = entry.heading();
    if (!heading.empty()) text += fmt::format("{}{}\n", text.empty() ? "" : "\n", heading);
    text += fmt::format("{} = {}\n", entry.field->key, to_toml_value(entry.field->value(config, entry.item)));
  }
  return text;
}

LoadResult without_file(const RunConfig& config) {
  LoadResult result;
  result.config = config;
  return result;
}

void throw_all(const LoadResult& loaded, std::span<const Error> found) {
  std::vector<Problem> problems = loaded.problems;
  for (const Error& error : found) {
    if (!error.key().empty() && loaded.has_problem(error.key())) continue;
    Problem problem{{}, 0, error.message(), error.fix(), error.key(), error.why(), error.code()};
    if (!error.key().empty()) {
      // A key of a list that is not given is placed at the beginning of its table.
      const std::string table = error.key().substr(0, error.key().rfind('.'));
      const bool in_table = !loaded.origin(error.key()).given() && loaded.origins.contains(table);
      const std::string& at = in_table ? table : error.key();
      if (!loaded.file_name.empty() || loaded.origin(at).given()) problem.where = loaded.where(at);
      problem.line = loaded.origin(at).line;
    }
    problems.push_back(std::move(problem));
  }
  throw_problems(loaded.file_name, std::move(problems));
}

}  // namespace hearth::config
