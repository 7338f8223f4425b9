// SPDX-License-Identifier: Apache-2.0
#include "config/import/foreign.h"

#include <fmt/format.h>

#include <charconv>
#include <cmath>

#include "base/text.h"
#include "config/toml_text.h"

namespace hearth::config {
namespace {

std::optional<int64_t> whole_scalar(std::string text) {
  std::erase(text, '_');
  const bool minus = text.starts_with('-');
  std::string_view digits = text;
  if (minus || text.starts_with('+')) digits.remove_prefix(1);
  const bool hex = digits.starts_with("0x");
  if (hex) digits.remove_prefix(2);
  int64_t whole = 0;
  const auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), whole, hex ? 16 : 10);
  if (error != std::errc() || end != digits.data() + digits.size() || digits.starts_with('-')) return std::nullopt;
  return minus ? -whole : whole;
}

std::optional<double> number_scalar(std::string text) {
  std::erase(text, '_');
  std::string_view digits = text;
  if (digits.starts_with('+')) digits.remove_prefix(1);
  double number = 0;
  const auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), number);
  if (error != std::errc() || end != digits.data() + digits.size() || !std::isfinite(number)) return std::nullopt;
  return number;
}

std::string in_brackets(const ForeignList& list, std::string (ForeignValue::*text)() const) {
  std::vector<std::string> words;
  for (const ForeignValue& element : list) words.push_back((element.*text)());
  return "[" + join(words) + "]";
}

ForeignValue value_of(const TomlEntry& entry) {
  if (!entry.value) return {entry.shown};
  return std::visit(
      []<typename T>(const T& value) -> ForeignValue {
        if constexpr (std::is_same_v<T, Numbers> || std::is_same_v<T, Names>) {
          ForeignList list;
          for (const auto& element : value) list.emplace_back().is = element;
          return {std::move(list)};
        } else {
          return {value};
        }
      },
      *entry.value);
}

}  // namespace

std::string ForeignValue::text() const {
  return std::visit(
      []<typename T>(const T& value) -> std::string {
        if constexpr (std::is_same_v<T, std::monostate>) {
          return "null";
        } else if constexpr (std::is_same_v<T, ForeignList>) {
          return in_brackets(value, &ForeignValue::text);
        } else if constexpr (std::is_same_v<T, double>) {
          const std::string text = fmt::format("{}", value);
          return text.ends_with(".0") ? text.substr(0, text.size() - 2) : text;
        } else {
          return fmt::format("{}", value);
        }
      },
      is);
}

std::string ForeignValue::written() const {
  if (!spelled.empty()) return spelled;
  const auto* list = std::get_if<ForeignList>(&is);
  return list == nullptr ? text() : in_brackets(*list, &ForeignValue::written);
}

std::string ForeignKey::where() const { return fmt::format("{}:{}", file, line); }

std::string ForeignKey::assignment() const {
  constexpr size_t kLongest = 60;
  std::string text = value.written();
  if (text.size() > kLongest) text = text.substr(0, kLongest) + "...";
  if (std::holds_alternative<std::string>(value.is)) text = "\"" + text + "\"";
  for (char& c : text) {
    if (static_cast<unsigned char>(c) < ' ' || c == 127) c = ' ';
  }
  if (called().starts_with('-')) return value.is.index() == 1 && text == "true" ? called() : called() + " " + text;
  return called() + " = " + text;
}

Problem problem_in(const std::string& file, std::string what, std::string fix) {
  return {file, 0, std::move(what), std::move(fix), {}};
}

Problem problem_at(const std::string& file, int line, std::string what, std::string fix) {
  return {fmt::format("{}:{}", file, line), line, std::move(what), std::move(fix), {}};
}

Problem problem_of(const ForeignKey& key, std::string what, std::string fix) {
  return {key.where(), key.line, std::move(what), std::move(fix), key.name};
}

ForeignValue plain_scalar(std::string_view text) {
  if (text.empty() || text == "~" || text == "null" || text == "Null" || text == "NULL") return {};
  for (const std::string_view yes : {"true", "True", "TRUE", "yes", "Yes", "YES", "on", "On", "ON"}) {
    if (text == yes) return {true};
  }
  for (const std::string_view no : {"false", "False", "FALSE", "no", "No", "NO", "off", "Off", "OFF"}) {
    if (text == no) return {false};
  }
  const char first = text.front();
  if (is_digit(first) || first == '-' || first == '+' || first == '.') {
    if (const auto whole = whole_scalar(std::string(text))) return {*whole};
    if (const auto number = number_scalar(std::string(text))) return {*number};
  }
  return {std::string(text)};
}

std::optional<double> number_of(const ForeignValue& value) {
  if (const auto* whole = std::get_if<int64_t>(&value.is)) return static_cast<double>(*whole);
  if (const auto* number = std::get_if<double>(&value.is)) return *number;
  if (const auto* text = std::get_if<std::string>(&value.is)) {
    const ForeignValue plain = plain_scalar(*text);
    if (!std::holds_alternative<std::string>(plain.is)) return number_of(plain);
  }
  return std::nullopt;
}

void read_foreign_toml(std::string_view text, const std::string& file, std::vector<ForeignKey>& keys,
                       std::vector<Problem>& problems) {
  std::vector<TomlEntry> entries;
  if (const auto error = parse_toml(text, entries))
    return problems.push_back(problem_at(file, error->line, fmt::format("this is not TOML: {}", error->what)));
  for (const TomlEntry& entry : entries) {
    if (entry.key.empty()) continue;
    const std::string table = entry.item ? fmt::format("{}.{}", entry.section, *entry.item) : entry.section;
    keys.push_back(
        {table.empty() ? entry.key : fmt::format("{}.{}", table, entry.key), value_of(entry), file, entry.line});
  }
}

void split_json_texts(std::vector<ForeignKey>& keys) {
  std::vector<ForeignKey> all;
  for (ForeignKey& key : keys) {
    const auto* text = std::get_if<std::string>(&key.value.is);
    std::vector<ForeignKey> parts;
    std::vector<Problem> faults;
    if (text != nullptr && text->starts_with('{') && text->find_first_not_of(" \t\n", 1) == text->find('"'))
      read_foreign_yaml(*text, key.file, parts, faults);
    if (parts.empty() || !faults.empty()) {
      all.push_back(std::move(key));
      continue;
    }
    for (ForeignKey& part : parts) {
      part.shown = key.from_command ? fmt::format("{} {}", key.called(), part.name) : "";
      part.name = fmt::format("{}.{}", key.name, part.name);
      part.line = key.line;
      part.from_command = key.from_command;
      all.push_back(std::move(part));
    }
  }
  keys = std::move(all);
}

}  // namespace hearth::config
