// SPDX-License-Identifier: Apache-2.0
#include "config/import/import.h"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <iostream>
#include <iterator>
#include <system_error>

#include "base/error.h"
#include "base/text.h"
#include "config/check.h"
#include "config/import/command.h"
#include "config/import/dialects.h"
#include "config/import/guess.h"
#include "config/load.h"

namespace hearth::config {
namespace {

constexpr int64_t kLargestFile = 16 << 20;  // bytes; run files have kilobytes

// Whether a line is the heading of a section: "[training]", "[ training ]" or "[[data.source]]".
bool is_heading(std::string_view line) {
  if (!line.starts_with('[')) return false;
  line = without_blanks(line.substr(0, line.find('#')));
  const size_t brackets = line.starts_with("[[") ? 2 : 1;
  if (line.size() <= 2 * brackets || !line.ends_with(brackets == 2 ? "]]" : "]")) return false;
  for (std::string_view names = line.substr(brackets, line.size() - 2 * brackets);;) {
    const size_t dot = names.find('.');
    const std::string_view name = without_blanks(names.substr(0, dot));
    const bool plain = std::all_of(name.begin(), name.end(), [](char c) { return is_word(c) || c == '-'; });
    if (name.empty() || !plain) return false;
    if (dot == std::string_view::npos) return true;
    names.remove_prefix(dot + 1);
  }
}

bool knows_option(std::string_view name) {
  static const std::vector<Dialect> all = dialects();
  return std::any_of(all.begin(), all.end(),
                     [name](const Dialect& dialect) { return dialect.commands && has_rule(dialect.rules, name); });
}

enum class TextKind { kToml, kYaml, kCommand };

TextKind kind_of(const Path& path, std::string_view text) {
  const std::string end = path.extension().string();
  if (end == ".sh" || end == ".bash" || end == ".slurm" || end == ".sbatch") return TextKind::kCommand;
  if (end == ".json") return TextKind::kYaml;
  const std::vector<std::string> lines = split_lines(std::string(text));
  const bool names_keys = end == ".toml" || end == ".yml" || end == ".yaml";
  if (!names_keys && !lines.empty() && lines.front().starts_with("#!")) return TextKind::kCommand;
  if (end == ".toml" || std::any_of(lines.begin(), lines.end(), is_heading)) return TextKind::kToml;
  return !names_keys && is_command_text(text) ? TextKind::kCommand : TextKind::kYaml;
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

std::string read_input(const Path& path) {
  if (path != "-") return too_large(path) ? std::string(1, '\0') : read_file(path);
  std::string text(static_cast<size_t>(kLargestFile) + 1, '\0');
  std::cin.read(text.data(), static_cast<std::streamsize>(text.size()));
  text.resize(static_cast<size_t>(std::cin.gcount()));
  return text;
}

void read_foreign_file(const Path& path, const std::string& name, std::vector<ForeignKey>& keys,
                       std::vector<Problem>& problems) {
  std::string text = read_input(path);
  if (static_cast<int64_t>(text.size()) > kLargestFile || text.find('\0') != std::string::npos)
    return problems.push_back(problem_in(name, "this is not a text with a run's keys",
                                         "give a run file in TOML, YAML or JSON, or a command, of at most 16 MiB"));
  if (text.starts_with("\xEF\xBB\xBF")) text.erase(0, 3);
  if (const int line = line_without_utf8(text); line > 0)
    return problems.push_back(
        problem_at(name, line, "this is not UTF-8", "write the file in UTF-8: `iconv --to-code UTF-8`"));
  const bool is_python_script =
      text.starts_with("#!") && std::string_view(text).substr(0, text.find('\n')).find("python") != std::string::npos;
  if (path.extension() == ".py" || is_python_script)
    return problems.push_back(
        problem_in(name, "this is a program in Python, and programs are not run here",
                   "give the command that starts it, or a .json of what its TrainingArguments' to_json_string() "
                   "returns"));
  switch (kind_of(path, text)) {
    case TextKind::kToml:
      return read_foreign_toml(text, name, keys, problems);
    case TextKind::kCommand:
      return read_foreign_command(text, name, knows_option, keys, problems);
    case TextKind::kYaml:
      return read_foreign_yaml(text, name, keys, problems);
  }
}

// An option takes the place of a file's key where the program does so. What it replaces becomes a note.
void put_options_first(std::vector<ForeignKey>& keys, std::vector<std::string>& notes) {
  for (size_t i = 0; i < keys.size();) {
    const ForeignKey& key = keys[i];
    const auto option = std::find_if(keys.begin(), keys.end(), [&key](const ForeignKey& other) {
      return other.from_command && !key.from_command && other.name == key.name;
    });
    if (option == keys.end()) {
      ++i;
      continue;
    }
    notes.push_back(fmt::format("{} of {} takes the place of {} of {}.", option->assignment(), option->where(),
                                key.assignment(), key.where()));
    keys.erase(keys.begin() + static_cast<std::ptrdiff_t>(i));
  }
}

// Files that a command names as the place of its keys must be given.
void require_named_files(const Draft& draft, std::vector<Problem>& problems) {
  const ForeignKey* named = draft.find("launch.files");
  if (named == nullptr) return;
  for (const ForeignValue& file : std::get<ForeignList>(named->value.is)) {
    if (draft.has_file(file.text())) continue;
    problems.push_back(problem_of(*named, fmt::format("the training also reads {}", file.text()),
                                  "give it, too: several files are read as one"));
  }
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
  std::vector<std::string> names, notes;
  for (const Path& path : files) {
    const std::string name = path == "-" ? "stdin" : path.string();
    if (std::find(names.begin(), names.end(), name) != names.end())
      throw user_error(fmt::format("{} is given twice", name), "", "give each file once");
    names.push_back(name);
    read_foreign_file(path, name, keys, problems);
  }
  std::string title = names.size() > 1 ? "the import of " + join(names, " and ") : join(names, " and ");
  throw_problems(title, problems);
  split_json_texts(keys);
  const auto is_of_launch = [](const ForeignKey& key) { return key.name.starts_with("launch."); };
  if (std::all_of(keys.begin(), keys.end(), is_of_launch))  // all others are in files that the command names
    require_named_files(Draft({}, keys, {}), problems);
  throw_problems(title, problems);
  const Dialect dialect = choose_dialect(keys, from, title);
  title += fmt::format(" (read as {})", dialect.title);
  name_variables(dialect, keys, problems);
  join_negations(dialect, keys);
  if (dialect.options_win) put_options_first(keys, notes);
  if (dialect.prepare != nullptr) dialect.prepare(keys, problems);
  if (problems.empty()) require_training(dialect, keys, names, problems);
  throw_problems(title, problems);
  const auto num_foreign =
      std::count_if(keys.begin(), keys.end(), [](const auto& k) { return !k.name.starts_with('$'); });
  Draft draft(std::string(dialect.title), std::move(keys), options);
  for (std::string& note : notes) draft.note(std::move(note));
  draft.apply(dialect.rules);
  dialect.import(draft);
  draft.refuse_conflicts();
  problems = draft.problems();
  require_named_files(draft, problems);
  throw_problems(title, problems);
  const Draft::Text written = draft.write(command);
  throw_problems(title, problems_of(written));
  return {std::string(dialect.title), written.text, draft.num_keys(), num_foreign};
}

}  // namespace hearth::config
