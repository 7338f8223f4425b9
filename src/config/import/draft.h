// A run file in the making: what an import takes from foreign keys, and what becomes of each of them.
#pragma once

#include <functional>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "config/fields.h"
#include "config/import/foreign.h"

namespace hearth::config {

// What an import does with a key. Tables of these are the dialects.
struct ImportRule {
  enum class Kind {
    kCopy,    // our key `target` gets the value; `words` is a note beside it
    kRead,    // code of the dialect reads it
    kIgnore,  // it does not change what is trained: `words` say why
    kOnly,    // only the values `target` ("1|null") are what Hearth does; `words` say what it does
    kRefuse   // `words` say why; `fix` says what to do
  };
  std::string_view name;  // "training.steps"; "profiling.*" is every key that begins with "profiling.", without a row
  Kind kind;
  std::string_view target{}, words{}, fix{};
};

constexpr ImportRule copy(std::string_view name, std::string_view target, std::string_view note = {}) {
  return {name, ImportRule::Kind::kCopy, target, note};
}
constexpr ImportRule read(std::string_view name) { return {name, ImportRule::Kind::kRead}; }
constexpr ImportRule ignore(std::string_view name, std::string_view why) {
  return {name, ImportRule::Kind::kIgnore, {}, why};
}
constexpr ImportRule only(std::string_view name, std::string_view values, std::string_view what) {
  return {name, ImportRule::Kind::kOnly, values, what};
}
constexpr ImportRule refuse(std::string_view name, std::string_view why, std::string_view fix = {}) {
  return {name, ImportRule::Kind::kRefuse, {}, why, fix};
}

// Whether a pattern is the name, or ends in * and is the name's begin. "env.NAME" is also "$NAME".
bool fits_pattern(std::string_view pattern, std::string_view name);
// The rule of a key: a row of its own, or the longest row with * that begins so. Null: no rule.
const ImportRule* rule_for(std::span<const ImportRule> rules, std::string_view name);
// Whether a key has a row of its own.
bool has_rule(std::span<const ImportRule> rules, std::string_view name);

// Our key of that name, or null: "training.steps", and "data.source.0.path" of a list.
const Field* field_of(std::string_view key);

struct ImportOptions {
  int64_t ranks = 0;                     // of the foreign training; 0: not given
  bool layout = true;                    // whether degrees of parallelism and micro-batches are taken
  std::vector<std::string> leave_out{};  // names of foreign keys
};

class Draft {
 public:
  // `program`: the foreign one, for messages.
  Draft(std::string program, std::vector<ForeignKey> keys, ImportOptions options);

  const std::string& program() const { return program_; }
  const ImportOptions& options() const { return options_; }
  // The number of ranks that the files say, unless --ranks is given.
  void take_ranks(int64_t ranks) {
    if (options_.ranks == 0) options_.ranks = ranks;
  }

  // Applies a dialect's table to every key. A key that no rule names is a problem. Variables ("$NAME", "env.NAME") are
  // listed in the result.
  void apply(std::span<const ImportRule> rules);

  // A foreign key, or null. A key that is left out, or null in its file, is not there.
  const ForeignKey* find(std::string_view name) const;
  bool has(std::string_view name) const { return find(name) != nullptr; }
  // Compares a value's text(): "false" is also the word "False" of a command.
  bool text_is(std::string_view name, std::string_view text) const {
    const ForeignKey* key = find(name);
    return key != nullptr && key->value.text() == text;
  }
  // Whether a file of this name, in whatever folder, gave keys.
  bool has_file(std::string_view path) const;
  // The keys whose names begin so, in their order.
  std::vector<const ForeignKey*> keys_under(std::string_view begin) const;
  // Values of a type. Empty if there is no such key; another type is a problem.
  std::optional<int64_t> whole(std::string_view name);
  // The same, without a problem: empty also for a value of another type.
  std::optional<int64_t> known_whole(std::string_view name) const;
  std::optional<double> number(std::string_view name);
  std::optional<bool> flag(std::string_view name);
  std::optional<std::string> text(std::string_view name);  // as it is written
  std::optional<std::vector<std::string>> texts(std::string_view name);
  std::optional<std::vector<double>> numbers(std::string_view name);

  // Our key gets a value. `from`: the foreign key that it comes from, or null; `note` stands beside it.
  void set(std::string_view key, Value value, const ForeignKey* from, std::string note = {});
  // A default of the foreign program, where nothing was set. Left out if it is ours, too.
  void assume(std::string_view key, Value value, std::string_view why);
  bool is_set(std::string_view key) const { return items_.contains(key); }
  const Value* value(std::string_view key) const;
  int64_t num_keys() const { return static_cast<int64_t>(items_.size()); }

  void note(std::string text) { notes_.push_back(std::move(text)); }
  void refuse(const ForeignKey& key, std::string_view why, std::string_view fix = {});
  void problem(std::string what, std::string fix);
  const std::vector<Problem>& problems() const { return problems_; }

  // The run file, and for each of its lines the place that its key comes from ("run.yml:12"), or an empty text.
  struct Text {
    std::string text;
    std::vector<std::string> origins;  // of line 1, 2, ...
  };
  Text write(std::string_view command) const;

 private:
  struct Item {
    Value value;
    std::string where, note;
    std::string from;  // the foreign key's name
  };
  std::vector<std::string> read_together() const;  // keys of rules kRead that gave no key of ours alone
  void wrong_type(const ForeignKey& key, std::string_view expected);
  void copy_value(const ForeignKey& key, std::string_view target, std::string_view note);

  std::string program_;
  std::vector<ForeignKey> keys_;
  ImportOptions options_;
  std::map<std::string, Item, std::less<>> items_;
  std::vector<std::string> notes_, ignored_, left_out_, variables_;
  std::vector<const ForeignKey*> read_;  // keys of rules kRead
  std::vector<Problem> problems_;
};

}  // namespace hearth::config
