#include "config/import/import.h"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <iterator>
#include <system_error>

#include "base/error.h"
#include "base/text.h"
#include "config/check.h"
#include "config/import/dialects.h"
#include "config/load.h"

namespace hearth::config {
namespace {

constexpr int64_t kLargestFile = 16 << 20;  // bytes; run files have kilobytes

std::vector<Dialect> dialects() {
  return {torchtitan_toml(), torchtitan_json(), neox(), transformers(), megatron(), trainium()};
}

// What the files say, read as one.
struct ForeignRun {
  std::vector<ForeignKey> keys;
  std::vector<std::string> notes;
  bool script = false;  // whether one is a script
};

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

bool has_rule(const Dialect& dialect, std::string_view name) {
  return std::any_of(dialect.rules.begin(), dialect.rules.end(),
                     [name](const ImportRule& rule) { return rule.name == name; });
}

bool knows_option(std::string_view name) {
  static const std::vector<Dialect> all = dialects();
  return std::any_of(all.begin(), all.end(), [name](const Dialect& d) { return d.scripts && has_rule(d, name); });
}

// Whether a text is a script, or options of a command line, rather than keys of a file.
bool is_script(const Path& path, const std::vector<std::string>& lines) {
  const std::string end = path.extension().string();
  if (end == ".sh" || end == ".bash" || end == ".slurm" || end == ".sbatch") return true;
  if (end == ".toml" || end == ".yml" || end == ".yaml" || end == ".json") return false;
  if (!lines.empty() && lines.front().starts_with("#!")) return true;
  if (std::any_of(lines.begin(), lines.end(), is_heading)) return false;
  return std::any_of(lines.begin(), lines.end(), [](std::string_view line) {
    while (line.starts_with(' ') || line.starts_with('\t')) line.remove_prefix(1);
    if (line.starts_with("export ")) line.remove_prefix(7);
    const auto letter = [](char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_'; };
    if (line.starts_with("--")) return line.size() > 2 && letter(line[2]);
    size_t end = 0;
    while (end < line.size() && (letter(line[end]) || (line[end] >= '0' && line[end] <= '9'))) ++end;
    return end > 0 && end < line.size() && line[end] == '=';
  });
}

// The first line that is not UTF-8, or 0. The result is TOML, which is UTF-8 always.
int line_without_utf8(std::string_view text) {
  int line = 1;
  for (size_t i = 0; i < text.size();) {
    const auto lead = static_cast<unsigned char>(text[i]);
    const size_t length = lead < 0x80 ? 1 : lead < 0xC2 ? 0 : lead < 0xE0 ? 2 : lead < 0xF0 ? 3 : lead < 0xF5 ? 4 : 0;
    if (length == 0 || i + length > text.size()) return line;
    uint32_t code = length == 1 ? lead : lead & (0xFFu >> (length + 1));
    for (size_t k = 1; k < length; ++k) {
      const auto next = static_cast<unsigned char>(text[i + k]);
      if ((next & 0xC0) != 0x80) return line;
      code = (code << 6) | (next & 0x3Fu);
    }
    const bool too_long = (length == 3 && code < 0x800) || (length == 4 && code < 0x10000);
    if (too_long || code > 0x10FFFF || (code >= 0xD800 && code < 0xE000)) return line;
    if (text[i] == '\n') ++line;
    i += length;
  }
  return 0;
}

// Whether a file is too large to be one, or without an end, as /dev/zero is.
bool too_large(const Path& path) {
  std::error_code ignored;
  if (std::filesystem::is_character_file(path, ignored)) return true;
  return std::filesystem::is_regular_file(path, ignored) &&
         std::filesystem::file_size(path, ignored) > static_cast<uintmax_t>(kLargestFile);
}

void read_foreign_file(const Path& path, ForeignRun& run, std::vector<Problem>& problems) {
  const std::string name = path.string();
  std::vector<ForeignKey>& keys = run.keys;
  const std::string text = too_large(path) ? std::string(1, '\0') : read_file(path);
  if (static_cast<int64_t>(text.size()) > kLargestFile || text.find('\0') != std::string::npos) {
    problems.push_back({name,
                        0,
                        "this is not a text with a run's keys",
                        "give a run file in TOML, YAML or JSON, or a script, of at most 16 MiB",
                        {}});
    return;
  }
  if (const int line = line_without_utf8(text); line > 0) {
    problems.push_back({fmt::format("{}:{}", name, line),
                        line,
                        "this is not UTF-8",
                        "write the file in UTF-8: `iconv --to-code UTF-8`",
                        {}});
    return;
  }
  const std::vector<std::string> lines = split_lines(text);
  const bool script = is_script(path, lines);
  const std::string end = path.extension().string();
  if (!script && end != ".json" && std::any_of(lines.begin(), lines.end(), is_heading)) {
    read_foreign_toml(text, name, keys, problems);
  } else if (script) {
    run.script = true;
    read_foreign_script(text, name, knows_option, keys, run.notes, problems);
  } else {
    read_foreign_yaml(text, name, keys, problems);
  }
}

// The dialect whose table names most of the keys.
Dialect find_dialect(const ForeignRun& run, std::string_view from, const std::string& files) {
  std::vector<Dialect> all = dialects();
  if (!from.empty()) {
    const auto named = std::find_if(all.begin(), all.end(), [from](const Dialect& d) { return d.name == from; });
    HEARTH_CHECK(named != all.end(), "{}", from);
    return *named;
  }
  const auto known = [&run](const Dialect& dialect) -> std::ptrdiff_t {
    if (run.script ? !dialect.scripts : !dialect.files) return 0;
    return std::count_if(run.keys.begin(), run.keys.end(),
                         [&dialect](const ForeignKey& key) { return has_rule(dialect, key.name); });
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
  ForeignRun run;
  std::vector<Problem> problems;
  std::vector<std::string> names;
  for (const Path& path : files) {
    if (std::find(names.begin(), names.end(), path.string()) != names.end())
      throw user_error(fmt::format("{} is given twice", path.string()), "", "give each file once");
    names.push_back(path.string());
    read_foreign_file(path, run, problems);
  }
  const std::string title = names.size() > 1 ? "the import of " + join(names, " and ") : join(names, " and ");
  throw_problems(title, problems);
  const Dialect dialect = find_dialect(run, from, title);
  if (dialect.prepare != nullptr) {
    dialect.prepare(run.keys, problems);
    throw_problems(title, problems);
  }
  const auto num_foreign =
      std::count_if(run.keys.begin(), run.keys.end(), [](const auto& k) { return !k.name.starts_with('$'); });
  Draft draft(std::string(dialect.title), std::move(run.keys), options);
  for (std::string& note : run.notes) draft.note(std::move(note));
  draft.apply(dialect.rules);
  dialect.import(draft);
  throw_problems(title, draft.problems());
  const Draft::Text written = draft.write(command);
  throw_problems(title, problems_of(written));
  return {std::string(dialect.title), written.text, draft.num_keys(), num_foreign};
}

}  // namespace hearth::config
