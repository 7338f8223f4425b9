// SPDX-License-Identifier: Apache-2.0
// The column "applies when" of the table of fields: its texts and its rule.
#include <fmt/format.h>

#include <algorithm>

#include "base/error.h"
#include "config/fields.h"
#include "config/rules.h"

namespace hearth::config {
namespace {

// Only a training reads these sections.
bool is_for_training(std::string_view section) {
  return section == "lr_scheduler" || section == "checkpoint" || section == "validation";
}

Value value_of(const RunConfig& config, std::string_view key) {
  const Field* field = find_field(key);
  HEARTH_CHECK(field != nullptr, "{}", key);
  return field->value(config);
}

bool is_empty(const RunConfig& config, std::string_view key) {
  if (const List* list = find_list(key)) return list->size(config) == 0;
  const Value value = value_of(config, key);
  if (const auto* names = std::get_if<Names>(&value)) return names->empty();
  if (const auto* numbers = std::get_if<Numbers>(&value)) return numbers->empty();
  return std::get<std::string>(value).empty();
}

// "data.source" as a user writes it: "[[data.source]]".
std::string written(std::string_view key) {
  return find_list(key) != nullptr ? fmt::format("[[{}]]", key) : std::string(key);
}

template <class Items, class Text>
std::string joined(const Items& items, std::string_view separator, const Text& text_of) {
  std::string text;
  for (const auto& item : items) text += fmt::format("{}{}", text.empty() ? "" : separator, text_of(item));
  return text;
}

std::string values_text(const Condition& condition) {
  return joined(condition.values, " or ", [](const Value& value) { return to_toml_value(value); });
}

}  // namespace

bool Condition::holds(const RunConfig& config) const {
  return std::any_of(keys.begin(), keys.end(), [&](std::string_view key) {
    if (kind == Kind::kGiven) return !is_empty(config, key);
    const bool found = std::find(values.begin(), values.end(), value_of(config, key)) != values.end();
    return found == (kind == Kind::kIs);
  });
}

std::string Condition::text() const {
  std::string names = joined(keys, " or ", [](std::string_view key) { return fmt::format("`{}`", written(key)); });
  if (kind == Kind::kGiven) return names;
  return fmt::format("{} {} {}", names, kind == Kind::kIs ? "=" : "other than", values_text(*this));
}

std::string Condition::why_not(const RunConfig& config) const {
  if (kind == Kind::kGiven) return "without " + joined(keys, " or ", written);
  return "with " + joined(keys, " and ", [&](std::string_view key) {
           return fmt::format("{} = {}", key, to_toml_value(value_of(config, key)));
         });
}

std::string Condition::fix() const {
  const std::string names = joined(keys, " or ", written);
  if (kind == Kind::kIs) return fmt::format("set {} = {}", names, values_text(*this));
  return (kind == Kind::kIsNot ? "give another " : "give ") + names;
}

namespace {

// `shown`: the key with its value, as messages show it.
void require(Rules& rules, const RunConfig& config, const AppliesWhen& applies_when, std::string_view key,
             const std::string& shown) {
  for (const Condition& condition : applies_when) {
    if (condition.holds(config)) continue;
    std::vector<std::string_view> keys = {key};
    if (condition.kind != Condition::Kind::kGiven)
      keys.insert(keys.end(), condition.keys.begin(), condition.keys.end());
    rules.require(false, keys, fmt::format("{} has no effect {}", shown, condition.why_not(config)),
                  "remove it, or " + condition.fix());
    return;
  }
}

}  // namespace

void check_applies_when(Rules& rules, const RunConfig& config, bool is_training) {
  // Defaults are silent: `hearth config show` prints every key.
  for (const Field& field : fields()) {
    const Value value = field.value(config);
    if (value == field.default_value() || (is_for_training(field.section) && !is_training)) continue;
    require(rules, config, field.applies_when, field.name(),
            fmt::format("{} = {}", field.name(), to_toml_value(value)));
  }
  for (const List& list : lists()) {
    if (list.size(config) == 0 || (is_for_training(list.section()) && !is_training)) continue;
    require(rules, config, list.applies_when, fmt::format("{}.0", list.name), fmt::format("[[{}]]", list.name));
  }
}

}  // namespace hearth::config
