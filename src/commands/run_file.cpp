// SPDX-License-Identifier: Apache-2.0
#include "commands/run_file.h"

#include <fmt/format.h>

#include <algorithm>
#include <span>

#include "base/error.h"
#include "base/text.h"
#include "config/fields.h"
#include "data/shard/manifest.h"

namespace hearth::commands {
namespace {

// Each line of the wrapped text after `before`.
std::string paragraph(std::string_view text, std::string_view before = {}) {
  std::string lines;
  for (const std::string& line : wrap(text, kTextColumns - before.size())) lines += fmt::format("{}{}\n", before, line);
  return lines;
}

std::string rows_of(std::span<const config::Field> fields, std::string_view section) {
  std::vector<TextRow> rows;
  for (const config::Field& field : fields) {
    if (field.section != section) continue;
    const std::string unit = field.unit.empty() ? "" : fmt::format("{}: ", field.unit);
    rows.push_back({fmt::format("{} = {}", field.key, config::to_toml_value(field.default_value())),
                    fmt::format("{}{}", unit, field.help)});
  }
  return format_rows(rows);
}

}  // namespace

std::string sections_help() {
  return "sections of a run file (`hearth config docs SECTION` lists the keys of one):\n" +
         paragraph(join(config::section_names(), " "), "  ");
}

std::string section_keys(std::string_view section) {
  const std::vector<std::string>& names = config::section_names();
  if (std::find(names.begin(), names.end(), section) == names.end())
    throw user_error(fmt::format("there is no section \"{}\" in a run file", section), "",
                     fmt::format("one of: {}", join(names)));
  std::string text = paragraph(fmt::format("[{}]  {}", section, config::section_help(section)));
  text += rows_of(config::fields(), section);
  for (const config::List& list : config::lists()) {
    if (list.section() != section) continue;
    text += "\n" + paragraph(fmt::format("[[{}]]  {}", list.name, list.help));
    text += rows_of(config::list_fields(), list.name);
  }
  return text;
}

int64_t vocab_size_of_data(const config::RunConfig& config) {
  const auto sources = config.sources();
  if (sources.empty()) return 0;
  const Path folder = config.resolve(sources.front().path);
  if (!path_exists(folder / data::kManifestName)) return 0;
  try {
    return data::read_manifest(folder).vocab_size;
  } catch (const Error& e) {
    if (e.code() == ExitCode::kBug) throw;
    return 0;
  }
}

}  // namespace hearth::commands
