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
using Slot = std::variant<bool*, int64_t*, double*, std::string*>;
using Value = std::variant<bool, int64_t, double, std::string>;

// What happens when a run goes on from a checkpoint and the key has another value than before.
enum class AtResume {
  kMayChange,  // obeyed from the next step on
  kNoEffect,   // only the start of a run reads it
  kRefuse      // it would no longer be the same training
};

// What a field's value may be.
struct Limits {
  // Of numbers. `special` is a value outside the bounds that has a meaning of its own, told in the field's help.
  double least = -std::numeric_limits<double>::infinity(), most = std::numeric_limits<double>::infinity();
  bool least_open = false, most_open = false;  // the bound itself is not allowed
  double special = std::numeric_limits<double>::quiet_NaN();
  std::vector<std::string_view> choices = {};  // of strings; empty: any

  bool allow(double number) const;
  bool allow(std::string_view text) const;
  std::string text() const;  // "at least 1", "one of \"a\", \"b\""; empty: anything
};

struct Field {
  std::string_view section, key;
  Slot (*slot)(RunConfig& config);
  AtResume at_resume;
  std::string_view unit;  // "tokens", "s"; empty: none
  std::string_view help;  // one sentence without a full stop, lower case
  Limits limits;

  std::string name() const;  // "training.steps"
  Value value(const RunConfig& config) const;
  Value default_value() const;
  std::string_view type() const;  // "bool", "integer", "number", "string"
};

// In the order of docs/config.md: sections, and keys in them.
std::span<const Field> fields();
const Field* find_field(std::string_view name);  // "training.steps"; null: none
std::vector<std::string> section_names();
std::string_view section_help(std::string_view section);

// As TOML writes it; numbers read back as the same bits.
std::string to_toml_value(const Value& value);

// A named shape: fills the [model] keys that are not given.
struct Flavor {
  std::string_view name;
  int64_t dim, n_layers, n_heads, n_kv_heads;
  double ffn_dim_multiplier;
  int64_t multiple_of;
  double rope_theta;
};
std::span<const Flavor> flavors();

}  // namespace hearth::config
