#include "commands/run_file.h"

#include <fmt/format.h>

#include "base/text.h"
#include "config/fields.h"

namespace hearth::commands {

std::string key_table() {
  std::string text;
  std::vector<Row> rows;
  std::string_view section;
  const auto flush = [&] {
    if (!rows.empty()) text += fmt::format("\n  [{}]\n{}", section, format_rows(rows));
    rows.clear();
  };
  for (const config::Field& field : config::fields()) {
    if (field.section != section) flush();
    section = field.section;
    const std::string unit = field.unit.empty() ? "" : fmt::format("{}: ", field.unit);
    rows.push_back({fmt::format("{} = {}", field.key, config::to_toml_value(field.default_value())),
                    fmt::format("{}{}", unit, field.help)});
  }
  flush();
  for (const config::List& list : config::lists()) {
    text += fmt::format("\n  [[{}]]  {}\n", list.name, list.help);
    for (const config::Field& field : config::list_fields()) {
      if (field.section == list.name)
        rows.push_back(
            {fmt::format("{} = {}", field.key, config::to_toml_value(field.default_value())), std::string(field.help)});
    }
    text += format_rows(rows);
    rows.clear();
  }
  return text;
}

}  // namespace hearth::commands
