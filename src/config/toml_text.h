// TOML as a flat list of `section.key = value` with line numbers. The one file that knows toml++.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "config/fields.h"

namespace hearth::config {

struct TomlEntry {
  std::string section, key;    // an empty section: the key stands at the top; an empty key: the section itself
  std::optional<Value> value;  // empty: a list of other things than numbers or texts, a table or a date
  std::string shown;           // the value as it is written
  int line;
  std::optional<size_t> item{};  // in [[section]], "data.source": which of its tables
};

struct TomlError {
  int line;
  std::string what;
};

// Appends what the text says, in its order; a syntax error ends it.
std::optional<TomlError> parse_toml(std::string_view text, std::vector<TomlEntry>& entries);

}  // namespace hearth::config
