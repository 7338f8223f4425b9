// SPDX-License-Identifier: Apache-2.0
// Functions to write rows of the table of fields; only for the table's sources.
#pragma once

#include <concepts>
#include <functional>
#include <limits>
#include <optional>
#include <string_view>
#include <utility>
#include <vector>

#include "config/fields.h"

namespace hearth::config {

template <class Member>
FieldPointer pointer_to(Member* member) {
  if constexpr (Choice<Member>)
    return ChoicePointer{member, [](const void* at) { return name_of(*static_cast<const Member*>(at)); },
                         [](void* at, std::string_view name) {
                           const std::optional<Member> choice = find_choice<Member>(name);
                           if (choice) *static_cast<Member*>(at) = *choice;
                           return choice.has_value();
                         }};
  else
    return member;
}

// Every choice of an enum.
template <Choice E>
std::vector<std::string_view> all_choices() {
  const auto names = choice_names(E{});
  return {names.begin(), names.end()};
}

// A row of the table: a key of its section's struct `Keys`, and what Field says about it. A choice without limits may
// be any value of its enum.
template <class Keys>
struct FieldRow {
  template <class Owner, class Member>
  FieldRow(std::string_view key, Member Owner::*member, AtResume at_resume, std::string_view unit,
           std::string_view help, Limits limits = {}, AppliesWhen applies_when = {})
      : field{{}, key, {}, at_resume, unit, help, std::move(limits), std::move(applies_when)},
        pointer([member](Keys& keys) { return pointer_to(&(keys.*member)); }) {
    if constexpr (Choice<Member>) {
      if (field.limits.choices.empty()) field.limits.choices = all_choices<Member>();
    }
  }

  Field field;  // without its section and place
  std::function<FieldPointer(Keys&)> pointer;
};

struct FieldTable {
  std::vector<Field> fields;

  // Adds rows of [name], which is `member` of a RunConfig.
  template <class Keys>
  void section(std::string_view name, Keys RunConfig::*member, std::vector<FieldRow<Keys>> rows) {
    add<Keys>(
        name, [member](RunConfig& config, size_t) -> Keys& { return config.*member; }, std::move(rows));
  }
  // Adds the rows of [[name]].
  template <class Section, class Keys>
  void list(std::string_view name, Section RunConfig::*section, std::vector<Keys> Section::*items,
            std::vector<FieldRow<Keys>> rows) {
    const auto keys_of = [=](RunConfig& config, size_t item) -> Keys& { return (config.*section.*items).at(item); };
    add<Keys>(name, keys_of, std::move(rows));
  }

 private:
  template <class Keys, class KeysOf>
  void add(std::string_view section, const KeysOf& keys_of, std::vector<FieldRow<Keys>> rows) {
    for (FieldRow<Keys>& row : rows) {
      row.field.section = section;
      row.field.place = [keys_of, pointer = std::move(row.pointer)](RunConfig& config, size_t item) {
        return pointer(keys_of(config, item));
      };
      fields.push_back(std::move(row.field));
    }
  }
};

inline Limits at_least(double least) { return {.least = least}; }
inline Limits between(double least, double most) { return {.least = least, .most = most}; }
// [least, most): most itself is not allowed.
inline Limits from_below(double least, double most) { return {.least = least, .most = most, .most_open = true}; }
// (least, most].
inline Limits above(double least, double most = std::numeric_limits<double>::infinity()) {
  return {.least = least, .most = most, .least_open = true};
}
inline Limits or_special(double special, Limits limits) {
  limits.special = special;
  return limits;
}
inline Limits one_of(std::vector<std::string_view> choices) { return {.choices = std::move(choices)}; }

// The named choices of an enum.
template <Choice E, std::same_as<E>... Others>
Limits one_of(E first, Others... others) {
  return one_of({name_of(first), name_of(others)...});
}

// A value of a condition; a choice becomes its name.
template <class T>
Value value_of(T value) {
  if constexpr (Choice<T>)
    return std::string(name_of(value));
  else
    return value;
}
template <class... Values>
Condition is(std::string_view key, Values... values) {
  return {Condition::Kind::kIs, {key}, {value_of(values)...}};
}
template <class... Values>
Condition is_not(std::string_view key, Values... values) {
  return {Condition::Kind::kIsNot, {key}, {value_of(values)...}};
}
template <class... Values>
Condition either_is(std::string_view one, std::string_view other, Values... values) {
  return {Condition::Kind::kIs, {one, other}, {value_of(values)...}};
}
inline Condition given(std::string_view key) { return {Condition::Kind::kGiven, {key}}; }

constexpr auto kMayChange = AtResume::kMayChange;
constexpr auto kNoEffect = AtResume::kNoEffect;
constexpr auto kRefuse = AtResume::kRefuse;

// The rows of field_table_run.cpp. Run: [validation] to [comm]; machine: [memory] and [numerics].
void add_training(FieldTable& table);
void add_parallelism(FieldTable& table);
void add_checkpoint(FieldTable& table);
void add_run(FieldTable& table);
void add_data(FieldTable& table);
void add_machine(FieldTable& table);

}  // namespace hearth::config
