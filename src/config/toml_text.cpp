#include "config/toml_text.h"

#define TOML_HEADER_ONLY 1
#include <toml++/toml.h>

#include <algorithm>

namespace hearth::config {
namespace {

int line_of(const toml::source_region& source) { return static_cast<int>(source.begin.line); }

TomlEntry entry_of(const std::string& section, const toml::key& key, const toml::node& node) {
  TomlEntry entry{section, std::string(key.str()), std::nullopt, {}, line_of(key.source())};
  if (const auto* flag = node.as_boolean()) entry.value = flag->get();
  if (const auto* whole = node.as_integer()) entry.value = whole->get();
  if (const auto* number = node.as_floating_point()) entry.value = number->get();
  if (const auto* text = node.as_string()) entry.value = text->get();
  if (entry.value) {
    entry.shown = to_toml_value(*entry.value);
  } else {
    entry.shown = node.is_array() ? "a list" : node.is_table() ? "a table" : "a date or time";
  }
  return entry;
}

}  // namespace

std::optional<TomlError> parse_toml(std::string_view text, std::vector<TomlEntry>& entries) {
  toml::table table;
  try {
    table = toml::parse(text);
  } catch (const toml::parse_error& error) {
    std::string what(error.description());
    // "Error while parsing key-value pair: " says nothing to a user.
    const size_t colon = what.starts_with("Error while parsing") ? what.find(": ") : std::string::npos;
    if (colon != std::string::npos) what.erase(0, colon + 2);
    return TomlError{line_of(error.source()), what};
  }
  for (const auto& [name, node] : table) {
    const toml::table* section = node.as_table();
    if (section == nullptr) {
      entries.push_back(entry_of({}, name, node));
      continue;
    }
    const std::string section_name(name.str());
    entries.push_back({section_name, {}, std::nullopt, {}, line_of(name.source())});
    for (const auto& [key, value] : *section) entries.push_back(entry_of(section_name, key, value));
  }
  // toml++ sorts by name.
  std::stable_sort(entries.begin(), entries.end(), [](const auto& a, const auto& b) { return a.line < b.line; });
  return std::nullopt;
}

}  // namespace hearth::config
