// SPDX-License-Identifier: Apache-2.0
// TOML as a flat list of `section.key = value` with line numbers. Only its source includes toml++.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "config/fields.h"

namespace hearth::config {

struct TomlEntry {
  std::string section, key;    // empty section: a key at the top level; empty key: the section itself
  std::optional<Value> value;  // empty: a table, a date, or a list of other types than numbers or texts
  std::string shown;           // as the file writes it
  int line;
  std::optional<size_t> item{};  // table number in [[section]], "data.source"
};

struct TomlError {
  int line;
  std::string what;
};

// Appends the entries of the text in its order, up to a syntax error.
std::optional<TomlError> parse_toml(std::string_view text, std::vector<TomlEntry>& entries);

// `given`, converted to the type of `type` if it fits: a number without a fraction may be an integer ("tokens = 3e8").
std::optional<Value> as_type(const Value& given, const Value& type);
// "a whole number", "a text in quotes".
std::string_view type_text(const Value& type);

}  // namespace hearth::config
