// SPDX-License-Identifier: Apache-2.0
// Limits, types and texts of values: the parts of fields.h and toml_text.h that do not depend on a key.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "config/fields.h"
#include "config/toml_text.h"

namespace hearth::config {
namespace {

constexpr double kLargestExactInteger = 9007199254740992.0;  // 2^53

std::string bound_text(double bound) {
  return std::abs(bound) < 1e15 && bound == std::floor(bound) ? fmt::format("{}", static_cast<int64_t>(bound))
                                                              : fmt::format("{}", bound);
}

// "[1.0, 0.5]", "[\"a\", \"b\"]"
template <class Item>
std::string list_text(const std::vector<Item>& items) {
  std::string text;
  for (const Item& item : items) text += (text.empty() ? "" : ", ") + to_toml_value(item);
  return "[" + text + "]";
}

}  // namespace

std::string Limits::text() const {
  if (!choices.empty()) return fmt::format("one of \"{}\"", fmt::join(choices, "\", \""));
  std::string text;
  if (std::isfinite(least)) text = (least_open ? "more than " : "at least ") + bound_text(least);
  if (std::isfinite(most)) {
    if (!text.empty()) text += ", ";
    text += (most_open ? "less than " : "at most ") + bound_text(most);
  }
  if (!std::isnan(special)) text += ", or " + bound_text(special);
  return text;
}

bool Limits::allow(double number) const {
  if (number == special) return true;
  return (least_open ? number > least : number >= least) && (most_open ? number < most : number <= most) &&
         std::isfinite(number);
}

bool Limits::allow(std::string_view text) const {
  return choices.empty() || std::find(choices.begin(), choices.end(), text) != choices.end();
}

bool Limits::allow(const Value& value) const {
  if (const auto* text = std::get_if<std::string>(&value)) return allow(std::string_view(*text));
  if (const auto* number = std::get_if<double>(&value)) return allow(*number);
  if (const auto* whole = std::get_if<int64_t>(&value)) return allow(static_cast<double>(*whole));
  if (const auto* numbers = std::get_if<Numbers>(&value))
    return std::all_of(numbers->begin(), numbers->end(), [this](double number) { return allow(number); });
  if (const auto* names = std::get_if<Names>(&value))
    return std::all_of(names->begin(), names->end(), [this](std::string_view name) { return allow(name); });
  return true;
}

std::string to_toml_value(const Value& value) {
  if (const auto* numbers = std::get_if<Numbers>(&value)) return list_text(*numbers);
  if (const auto* names = std::get_if<Names>(&value)) return list_text(*names);
  if (const bool* flag = std::get_if<bool>(&value)) return *flag ? "true" : "false";
  if (const int64_t* number = std::get_if<int64_t>(&value)) return fmt::format("{}", *number);
  if (const double* number = std::get_if<double>(&value)) {
    // The shortest text that is read back with the same bits; ".0" marks it as not an integer.
    const std::string text = fmt::format("{}", *number);
    return text.find_first_not_of("-0123456789") == std::string::npos ? text + ".0" : text;
  }
  std::string text = "\"";
  for (const char c : std::get<std::string>(value)) {
    if (c == '"' || c == '\\')
      text += fmt::format("\\{}", c);
    else if (static_cast<unsigned char>(c) < 0x20 || c == 0x7f)
      text += fmt::format("\\u{:04x}", c);
    else
      text += c;
  }
  return text + "\"";
}

std::string_view type_text(const Value& type) {
  static constexpr std::string_view kTexts[] = {"true or false",    "a whole number",    "a number",
                                                "a text in quotes", "a list of numbers", "a list of texts in quotes"};
  static_assert(std::size(kTexts) == std::variant_size_v<Value>);
  return kTexts[type.index()];
}

std::optional<Value> as_type(const Value& given, const Value& type) {
  if (given.index() == type.index()) return given;
  // TOML's [] is an empty list of any type; it is parsed as numbers.
  if (const auto* none = std::get_if<Numbers>(&given);
      none != nullptr && none->empty() && std::holds_alternative<Names>(type))
    return Value(Names{});
  if (const auto* whole = std::get_if<int64_t>(&given); whole != nullptr && std::holds_alternative<double>(type))
    return std::optional<Value>(std::in_place, static_cast<double>(*whole));
  if (const auto* number = std::get_if<double>(&given); number != nullptr && std::holds_alternative<int64_t>(type)) {
    if (*number == std::floor(*number) && std::abs(*number) <= kLargestExactInteger)
      return std::optional<Value>(std::in_place, static_cast<int64_t>(*number));
  }
  return std::nullopt;
}

}  // namespace hearth::config
