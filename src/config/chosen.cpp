// SPDX-License-Identifier: Apache-2.0
#include "config/chosen.h"

#include <fmt/format.h>

namespace hearth::config {

namespace {

// As people write it: [1, 2], where a file that is read back has [1.0, 2.0].
std::string shown_value(const Value& value) {
  const auto* numbers = std::get_if<Numbers>(&value);
  return numbers == nullptr ? to_toml_value(value) : fmt::format("[{}]", fmt::join(*numbers, ", "));
}

}  // namespace

std::vector<ChosenKey> chosen_keys(const LoadResult& run) {
  std::vector<ChosenKey> keys, of_lists;
  for (const Entry& entry : entries(run.config)) {
    const std::string name = entry.name();
    const Value value = entry.field->value(run.config, entry.item);
    const bool given = run.origins.empty() || run.origin(name).given();
    if (!given || value == entry.field->default_value() || entry.field->section == "data.source") continue;
    (entry.field->in_list() ? of_lists : keys)
        .push_back({name.substr(0, name.rfind('.')), fmt::format("{} = {}", entry.field->key, shown_value(value))});
  }
  keys.insert(keys.end(), of_lists.begin(), of_lists.end());
  return keys;
}

std::vector<std::string> chosen_lines(std::span<const ChosenKey> keys, size_t columns, size_t num_lines) {
  std::vector<std::string> lines;
  const auto more = [&](size_t shown) { return fmt::format("and {} more", keys.size() - shown); };
  for (size_t i = 0; i < keys.size(); ++i) {
    const bool same_section = i > 0 && keys[i].section == keys[i - 1].section;
    const std::string key = same_section ? keys[i].text : fmt::format("{}: {}", keys[i].section, keys[i].text);
    const char* between = same_section ? "," : ";";
    // The columns for a key on a line. The last key needs none after it. Others need one for a comma, or room for ",
    // and N more" on the last line.
    const auto room = [&](size_t line) {
      if (i + 1 == keys.size()) return columns;
      return columns - (line == num_lines ? 2 + more(i + 1).size() : 1);
    };
    if (!lines.empty() && lines.back().size() + 2 + key.size() <= room(lines.size())) {
      lines.back() += fmt::format("{} {}", between, key);
    } else if (lines.size() < num_lines) {
      if (!lines.empty()) lines.back() += between;
      const size_t most = room(lines.size() + 1);
      lines.push_back(key.size() <= most ? key : key.substr(0, most - 3) + "...");
    } else {
      lines.back() += ", " + more(i);
      break;
    }
  }
  return lines;
}

}  // namespace hearth::config
