// SPDX-License-Identifier: Apache-2.0
// The table of all keys of a run file. Parsing, checking, `hearth config show`, --help, the comparison at a resume and
// docs/config.md come from it. The defaults are those of config.h.
#pragma once

#include <cstdint>
#include <functional>
#include <limits>
#include <span>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "config/config.h"

namespace hearth::config {

// A field's member of RunConfig, and so its type.
using Numbers = std::vector<double>;
using Names = std::vector<std::string>;
// A member of an enum of choices.h; it is read and written by name.
struct ChoicePointer {
  void* member;
  std::string_view (*name)(const void* member);
  bool (*assign)(void* member, std::string_view name);  // false: no choice has the name
};
using FieldPointer = std::variant<bool*, int64_t*, double*, std::string*, Numbers*, Names*, ChoicePointer>;
using Value = std::variant<bool, int64_t, double, std::string, Numbers, Names>;

// The rule for a key whose value differs from the checkpoint's at a resume.
enum class AtResume {
  kMayChange,  // the new value holds from the next step on
  kNoEffect,   // only the start of a run reads it
  kRefuse      // it would be another training
};

// A key applies only if one of `keys` has one of `values` (kIs), has none of them (kIsNot), or is given.
struct Condition {
  enum class Kind { kIs, kIsNot, kGiven };  // kGiven: a text or list that is not empty
  Kind kind;
  std::vector<std::string_view> keys;  // "objective.kind", or a list such as "data.source"
  std::vector<Value> values = {};

  bool holds(const RunConfig& config) const;
  std::string text() const;                            // for docs/config.md: "`objective.kind` = \"masked_lm\""
  std::string why_not(const RunConfig& config) const;  // "with objective.kind = \"causal_lm\""
  std::string fix() const;                             // "set objective.kind = \"masked_lm\""
};
using AppliesWhen = std::vector<Condition>;  // all must hold; empty: always

// The values that a field allows.
struct Limits {
  // The limits of a number, or of each number of a list. `special` is a value outside the bounds with a meaning of its
  // own, which the field's help explains.
  double least = -std::numeric_limits<double>::infinity(), most = std::numeric_limits<double>::infinity();
  bool least_open = false, most_open = false;  // true: the bound itself is not allowed
  double special = std::numeric_limits<double>::quiet_NaN();
  std::vector<std::string_view> choices = {};  // for strings, and for each string of a list; empty: any

  bool allow(double number) const;
  bool allow(std::string_view text) const;
  bool allow(const Value& value) const;
  std::string text() const;  // "at least 1", "one of \"a\", \"b\""; empty: any value
};

// A key. A key of a list ("data.source") has a value in each of its tables, counted by `item`; else `item` is 0.
struct Field {
  std::string_view section, key;
  std::function<FieldPointer(RunConfig& config, size_t item)> place;
  AtResume at_resume;
  std::string_view unit;  // "tokens", "s"; empty: without a unit
  std::string_view help;  // one sentence without a full stop, lower case
  Limits limits;
  AppliesWhen applies_when = {};

  FieldPointer pointer(RunConfig& config, size_t item = 0) const { return place(config, item); }
  std::string name(size_t item = 0) const;  // "training.steps", "data.source.0.weight"
  Value value(const RunConfig& config, size_t item = 0) const;
  void set(RunConfig& config, size_t item, const Value& value) const;  // of the field's type and within its limits
  Value default_value() const;
  std::string_view type() const;  // "bool", "integer", "number", "string", "numbers", "strings"
  bool in_list() const { return section.find('.') != std::string_view::npos; }
};

// In the order of docs/config.md: by section. Keys of lists are in list_fields().
std::span<const Field> fields();
const Field* find_field(std::string_view name);  // "training.steps"; null: no such key
std::vector<std::string> section_names();
std::string_view section_help(std::string_view section);

// A table that a run file may have any number of times: [[data.source]]. It follows its section, [data].
struct List {
  std::string_view name;  // "data.source"
  std::string_view help;
  size_t (*size)(const RunConfig& config);
  void (*resize)(RunConfig& config, size_t size);
  AppliesWhen applies_when = {};

  std::string_view section() const { return name.substr(0, name.find('.')); }
};
std::span<const List> lists();
const List* find_list(std::string_view name);  // "data.source"; null: no such list
std::span<const Field> list_fields();          // of all lists, list by list
const Field* find_list_field(std::string_view list, std::string_view key);

// A key of a section, or of table number `item` of a list.
struct Entry {
  const Field* field;
  size_t item;
  std::string name() const { return field->name(item); }
  // The heading above the table's first key, "[training]" or "[[data.source]]"; empty for its other keys.
  std::string heading() const;
};
// Every key of `config` in the order of writing: each section's keys, then its lists.
std::vector<Entry> entries(const RunConfig& config);

// As TOML writes it; numbers are read back with the same bits.
std::string to_toml_value(const Value& value);

}  // namespace hearth::config
