// SPDX-License-Identifier: Apache-2.0
// Files of other trainers as flat lists of keys, each with its file and line.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "config/problem.h"

namespace hearth::config {

struct ForeignValue;
using ForeignList = std::vector<ForeignValue>;

// A value as its file writes it. std::monostate: null.
struct ForeignValue {
  std::variant<std::monostate, bool, int64_t, double, std::string, ForeignList> is;
  std::string spelled{};  // the word in the command as typed; empty for a value of a file

  bool null() const { return std::holds_alternative<std::monostate>(is); }
  // For comparison: "true", "0.1", "cosine", "[1, 2]", "null". A whole number has no decimal point: 1.0 is "1".
  std::string text() const;
  // For names and messages: a word of a command as it stands there, "on" or "007", and text() for a value of a file.
  std::string written() const;
};

// The last part of a path.
inline std::string_view base_name(std::string_view path) { return path.substr(path.rfind('/') + 1); }

// Characters of ASCII: what names and options have.
inline bool is_letter(char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z'); }
inline bool is_digit(char c) { return c >= '0' && c <= '9'; }
inline bool is_word(char c) { return is_letter(c) || is_digit(c) || c == '_'; }
inline char lower(char c) { return c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c; }

struct ForeignKey {
  std::string name;  // "optimizer.params.lr"; in a list of tables "optimizer.param_groups.0.pattern"
  ForeignValue value;
  std::string file;  // as the user typed it
  int line = 0;
  std::string shown{};        // the name as the file writes it: "--lr", "vocab-file"; empty: `name`
  bool from_command = false;  // an option, or NAME=value, rather than a key of a file

  const std::string& called() const { return shown.empty() ? name : shown; }
  std::string where() const;       // "run.yml:12"
  std::string assignment() const;  // "vocab-file = \"a.model\"", for messages
};

// Problems of a file, a line and a key.
Problem problem_in(const std::string& file, std::string what, std::string fix);
Problem problem_at(const std::string& file, int line, std::string what, std::string fix = {});
Problem problem_of(const ForeignKey& key, std::string what, std::string fix = {});

// The readers below append the keys of a text. A syntax error, a repeated key or an anchor is a problem. Keys before a
// syntax error are kept.
void read_foreign_toml(std::string_view text, const std::string& file, std::vector<ForeignKey>& keys,
                       std::vector<Problem>& problems);
// YAML, and JSON as a part of it. A - in a name becomes _. Scalars without quotes get the types that PyYAML gives them,
// except that "1e-4" is a number.
void read_foreign_yaml(std::string_view text, const std::string& file, std::vector<ForeignKey>& keys,
                       std::vector<Problem>& problems);

// A command that starts a training, options alone, or lines of NAME=value (config/import/command.h). The names of the
// keys: --the-name becomes the_name, a launcher's option launch.NAME, a line NAME=value $NAME, and NAME=value in front
// of the command env.NAME. `launch.files`: files that the command names without an option. `knows`: whether a trainer
// has an option of that name, to find the training among the commands of a trace. A script is a problem.
void read_foreign_command(std::string_view text, const std::string& file,
                          const std::function<bool(std::string_view)>& knows, std::vector<ForeignKey>& keys,
                          std::vector<Problem>& problems);

// Replaces a key whose value is a JSON object in a text, as Transformers has them, by keys of its parts:
// accelerator_config = "{\"split_batches\": true}" is accelerator_config.split_batches = true.
void split_json_texts(std::vector<ForeignKey>& keys);

// A scalar without quotes, as YAML 1.1 resolves it.
ForeignValue plain_scalar(std::string_view text);
// The value as a number, also if it is a text such as "1e-4": PyYAML reads 1e-4 as a text, and trainers turn it into a
// number.
std::optional<double> number_of(const ForeignValue& value);

}  // namespace hearth::config
