// Functions to write rows of the table of fields; only for the table's sources.
#pragma once

#include <concepts>
#include <limits>
#include <optional>
#include <string_view>
#include <utility>
#include <vector>

#include "config/fields.h"

namespace hearth::config {

template <class Member>
Slot slot_of(Member* member) {
  if constexpr (Choice<Member>)
    return ChoiceSlot{member, [](const void* at) { return name_of(*static_cast<const Member*>(at)); },
                      [](void* at, std::string_view name) {
                        const std::optional<Member> choice = find_choice<Member>(name);
                        if (choice) *static_cast<Member*>(at) = *choice;
                        return choice.has_value();
                      }};
  else
    return member;
}

template <auto Section, auto Member>
Slot slot(RunConfig& config, size_t) {
  return slot_of(&(config.*Section.*Member));
}

template <auto Section, auto List, auto Member>
Slot slot(RunConfig& config, size_t item) {
  return slot_of(&((config.*Section.*List).at(item).*Member));
}

inline Limits at_least(double least) {
  Limits limits;
  limits.least = least;
  return limits;
}

inline Limits between(double least, double most) {
  Limits limits;
  limits.least = least;
  limits.most = most;
  return limits;
}

// [least, most): most itself is not allowed.
inline Limits from_below(double least, double most) {
  Limits limits = between(least, most);
  limits.most_open = true;
  return limits;
}

// (least, most].
inline Limits above(double least, double most = std::numeric_limits<double>::infinity()) {
  Limits limits = between(least, most);
  limits.least_open = true;
  return limits;
}

inline Limits or_special(double special, Limits limits) {
  limits.special = special;
  return limits;
}

inline Limits one_of(std::vector<std::string_view> choices) {
  Limits limits;
  limits.choices = std::move(choices);
  return limits;
}

// Every choice of an enum, or the named ones.
template <Choice E>
Limits one_of() {
  Limits limits;
  for (const auto& named : kChoices<E>) limits.choices.push_back(named.name);
  return limits;
}
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

// The rows of field_table_run.cpp.
std::vector<Field> training_fields();
std::vector<Field> parallelism_fields();
std::vector<Field> checkpoint_fields();
std::vector<Field> run_fields();      // [validation] to [comm]
std::vector<Field> data_fields();     // [data]
std::vector<Field> machine_fields();  // [memory], [numerics]

}  // namespace hearth::config
