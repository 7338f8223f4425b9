// SPDX-License-Identifier: Apache-2.0
#include "config/import/rules.h"

#include <algorithm>

namespace hearth::config {
namespace {

// Whether a row is of this name alone.
bool is_row_of(const ImportRule& rule, std::string_view name) {
  return !rule.name.ends_with('*') && fits_pattern(rule.name, name);
}

}  // namespace

std::vector<ImportRule> one_by_one(std::span<const ImportRule> rows) {
  std::vector<ImportRule> rules;
  for (const ImportRule& row : rows) {
    for (size_t begin = 0; begin < row.name.size();) {
      const size_t end = std::min(row.name.find(' ', begin), row.name.size());
      ImportRule& rule = rules.emplace_back(row);
      rule.name = row.name.substr(begin, end - begin);
      if (rule.kind == ImportRule::Kind::kCopy && rule.target.empty()) rule.target = rule.name;
      begin = end + 1;
    }
  }
  return rules;
}

bool fits_pattern(std::string_view pattern, std::string_view name) {
  if (pattern.starts_with("env.") && name.starts_with('$')) return fits_pattern(pattern.substr(4), name.substr(1));
  if (!pattern.ends_with('*')) return pattern == name;
  return name.starts_with(pattern.substr(0, pattern.size() - 1));
}

const ImportRule* rule_for(std::span<const ImportRule> rules, std::string_view name) {
  const ImportRule* best = nullptr;
  for (const ImportRule& rule : rules) {
    if (is_row_of(rule, name)) return &rule;
    if (fits_pattern(rule.name, name) && (best == nullptr || rule.name.size() > best->name.size())) best = &rule;
  }
  return best;
}

bool has_rule(std::span<const ImportRule> rules, std::string_view name) {
  return std::any_of(rules.begin(), rules.end(), [name](const ImportRule& rule) { return is_row_of(rule, name); });
}

}  // namespace hearth::config
