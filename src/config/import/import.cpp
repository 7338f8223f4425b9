#include "config/import/import.h"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>

#include "base/error.h"
#include "base/text.h"
#include "config/check.h"
#include "config/import/dialects.h"
#include "config/load.h"

namespace hearth::config {
namespace {

constexpr int64_t kLargestFile = 16 << 20;  // bytes; run files have kilobytes

std::vector<Dialect> dialects() { return {torchtitan_toml(), neox()}; }

// Whether a line is the heading of a section: "[training]", or "[[data.source]]".
bool is_heading(std::string_view line) {
  line = line.substr(0, line.find('#'));
  while (line.ends_with(' ') || line.ends_with('\t') || line.ends_with('\r')) line.remove_suffix(1);
  if (line.size() < 3 || line.front() != '[' || line.back() != ']') return false;
  return std::all_of(line.begin(), line.end(), [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_' || c == '.' ||
           c == '-' || c == '[' || c == ']';
  });
}

void read_foreign_file(const Path& path, std::vector<ForeignKey>& keys, std::vector<Problem>& problems) {
  const std::string name = path.string();
  const std::string text = read_file(path);
  if (static_cast<int64_t>(text.size()) > kLargestFile || text.find('\0') != std::string::npos) {
    problems.push_back({name, 0, "this is not a text with a run's keys", "give a run file, in TOML, YAML or JSON", {}});
    return;
  }
  const std::vector<std::string> lines = split_lines(text);
  if (std::any_of(lines.begin(), lines.end(), is_heading))
    read_foreign_toml(text, name, keys, problems);
  else
    read_foreign_yaml(text, name, keys, problems);
}

// The dialect whose table names most of the keys.
Dialect find_dialect(const std::vector<ForeignKey>& keys, std::string_view from, const std::string& files) {
  std::vector<Dialect> all = dialects();
  if (!from.empty()) {
    const auto named = std::find_if(all.begin(), all.end(), [from](const Dialect& d) { return d.name == from; });
    HEARTH_CHECK(named != all.end(), "{}", from);
    return *named;
  }
  const auto known = [&keys](const Dialect& dialect) {
    return std::count_if(keys.begin(), keys.end(), [&dialect](const ForeignKey& key) {
      return std::any_of(dialect.rules.begin(), dialect.rules.end(),
                         [&key](const ImportRule& rule) { return rule.name == key.name; });
    });
  };
  const auto best = std::max_element(all.begin(), all.end(),
                                     [&known](const Dialect& a, const Dialect& b) { return known(a) < known(b); });
  if (known(*best) == 0)
    throw user_error(fmt::format("{}: no key is one of a trainer that Hearth imports from", files), "",
                     fmt::format("give --from {}, if it is one of these files", join(dialect_names(), " or ")));
  return *best;
}

// The rules between our keys, with the places of the foreign ones.
std::vector<Problem> problems_of(const Draft::Text& written) {
  LoadResult run = read_run_text(written.text, "the imported run file", ".");
  HEARTH_CHECK(!run.syntax_error, "{}", run.problems.front().what);
  check(run, Purpose::kImport);
  for (Problem& problem : run.problems) {
    const auto line = static_cast<size_t>(problem.line);
    problem.where = line == 0 || line > written.origins.size() ? "" : written.origins[line - 1];
    problem.line = 0;
  }
  return run.problems;
}

}  // namespace

std::vector<std::string> dialect_names() {
  std::vector<std::string> names;
  for (const Dialect& dialect : dialects()) names.emplace_back(dialect.name);
  return names;
}

Imported import_run(const std::vector<Path>& files, std::string_view from, const ImportOptions& options,
                    std::string_view command) {
  std::vector<ForeignKey> keys;
  std::vector<Problem> problems;
  std::vector<std::string> names;
  for (const Path& path : files) {
    names.push_back(path.string());
    read_foreign_file(path, keys, problems);
  }
  const std::string title = join(names, " and ");
  throw_problems(title, problems);
  const Dialect dialect = find_dialect(keys, from, title);
  const auto num_foreign =
      std::count_if(keys.begin(), keys.end(), [](const auto& k) { return !k.name.starts_with('$'); });
  Draft draft(std::string(dialect.title), std::move(keys), options);
  draft.apply(dialect.rules);
  dialect.import(draft);
  throw_problems(title, draft.problems());
  const Draft::Text written = draft.write(command);
  throw_problems(title, problems_of(written));
  return {std::string(dialect.title), written.text, draft.num_keys(), num_foreign};
}

}  // namespace hearth::config
