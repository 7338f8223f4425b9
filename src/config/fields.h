// The one table of everything a run file may say. Parsing, checking, `hearth config show`, --help, the comparison at a
// resume and docs/config.md come from it; the defaults are those of config.h.
#pragma once

#include <cstdint>
#include <limits>
#include <span>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "config/config.h"

namespace hearth::config {

// Where a field lives in a RunConfig, and so its type.
using Numbers = std::vector<double>;
using Names = std::vector<std::string>;
// A member that is an enum of choices.h; it is read and written by name.
struct ChoiceSlot {
  void* member;
  std::string_view (*name)(const void* member);
  bool (*assign)(void* member, std::string_view name);  // false: no choice has the name
};
using Slot = std::variant<bool*, int64_t*, double*, std::string*, Numbers*, Names*, ChoiceSlot>;
using Value = std::variant<bool, int64_t, double, std::string, Numbers, Names>;

// What happens when a run goes on from a checkpoint and the key has another value than before.
enum class AtResume {
  kMayChange,  // obeyed from the next step on
  kNoEffect,   // only the start of a run reads it
  kRefuse      // it would no longer be the same training
};

// A key has an effect only where one of other keys has one of some values, or none of them.
struct Condition {
  enum class Kind { kIs, kIsNot, kGiven };  // kGiven: a text or list that is not empty
  Kind kind;
  std::vector<std::string_view> keys;  // "objective.kind"; or a list, "data.source"
  std::vector<Value> values = {};

  bool holds(const RunConfig& config) const;
  std::string text() const;                            // for docs/config.md: "`objective.kind` = \"masked_lm\""
  std::string why_not(const RunConfig& config) const;  // "with objective.kind = \"causal_lm\""
  std::string fix() const;                             // "set objective.kind = \"masked_lm\""
};
using AppliesWhen = std::vector<Condition>;  // all of them; empty: always

// What a field's value may be.
struct Limits {
  // The limits of a number, or of each number of a list. `special` is a value outside the bounds that has a meaning of
  // its own, told in the field's help.
  double least = -std::numeric_limits<double>::infinity(), most = std::numeric_limits<double>::infinity();
  bool least_open = false, most_open = false;  // the bound itself is not allowed
  double special = std::numeric_limits<double>::quiet_NaN();
  std::vector<std::string_view> choices = {};  // of strings, and of each string of a list; empty: any

  bool allow(double number) const;
  bool allow(std::string_view text) const;
  bool allow(const Value& value) const;
  std::string text() const;  // "at least 1", "one of \"a\", \"b\""; empty: anything
};

// A key. The keys of a list ("data.source") stand once for each of its tables; `item` counts those, and is 0 elsewhere.
struct Field {
  std::string_view section, key;
  Slot (*place)(RunConfig& config, size_t item);
  AtResume at_resume;
  std::string_view unit;  // "tokens", "s"; empty: none
  std::string_view help;  // one sentence without a full stop, lower case
  Limits limits;
  AppliesWhen applies_when = {};

  Slot slot(RunConfig& config, size_t item = 0) const { return place(config, item); }
  std::string name(size_t item = 0) const;  // "training.steps", "data.source.0.weight"
  Value value(const RunConfig& config, size_t item = 0) const;
  void set(RunConfig& config, size_t item, const Value& value) const;  // one of its type that its limits allow
  Value default_value() const;
  std::string_view type() const;  // "bool", "integer", "number", "string", "numbers", "strings"
  bool in_list() const { return section.find('.') != std::string_view::npos; }
};

// In the order of docs/config.md: sections, and keys in them; without those of lists.
std::span<const Field> fields();
const Field* find_field(std::string_view name);  // "training.steps"; null: none
std::vector<std::string> section_names();
std::string_view section_help(std::string_view section);

// A table that a run file may have any number of times: [[data.source]]. It stands below its section, [data].
struct List {
  std::string_view name;  // "data.source"
  std::string_view help;
  size_t (*size)(const RunConfig& config);
  void (*resize)(RunConfig& config, size_t size);
  AppliesWhen applies_when = {};

  std::string_view section() const { return name.substr(0, name.find('.')); }
};
std::span<const List> lists();
const List* find_list(std::string_view name);  // "data.source"; null: none
std::span<const Field> list_fields();          // of all lists, those of a list together
const Field* find_list_field(std::string_view list, std::string_view key);

// A key where it stands: in a section, or in the table number `item` of a list.
struct Entry {
  const Field* field;
  size_t item;
  std::string name() const { return field->name(item); }
  // What stands above the table's first key, "[training]" or "[[data.source]]"; empty for its other keys.
  std::string heading() const;
};
// Everything `config` says, in the order in which it is written: each section's keys, then its lists.
std::vector<Entry> entries(const RunConfig& config);

// As TOML writes it; numbers read back as the same bits.
std::string to_toml_value(const Value& value);

}  // namespace hearth::config
