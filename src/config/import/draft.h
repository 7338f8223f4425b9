// SPDX-License-Identifier: Apache-2.0
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
#include "config/import/rules.h"

namespace hearth::config {

// Our key of that name, such as "training.steps" or, in a list, "data.source.0.path". Null for any other name.
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
  // Sets the number of ranks that the files give, unless --ranks is given. A note says where the two differ.
  void take_ranks(int64_t ranks);

  // Applies a dialect's table to every key. A key that no rule names is a problem. Variables ("$NAME", "env.NAME") are
  // listed in the result.
  void apply(std::span<const ImportRule> rules);
  // Refuses two keys of the files that are one of ours with two values, where the dialect did not refuse them already.
  void refuse_conflicts();

  // A foreign key. Null if it is missing, left out by the user, or null in its file.
  const ForeignKey* find(std::string_view name) const;
  bool has(std::string_view name) const { return find(name) != nullptr; }
  // The first of these keys that find() finds, or null.
  const ForeignKey* first_of(std::initializer_list<std::string_view> names) const;
  // Compares a value's text(): "false" is also the word "False" of a command.
  bool text_is(std::string_view name, std::string_view text) const;
  // Whether a file of this name, in whatever folder, gave keys.
  bool has_file(std::string_view path) const;
  // The keys whose names begin with `begin`, in their order.
  std::vector<const ForeignKey*> keys_under(std::string_view begin) const;
  // A key's value as a type. Empty if there is no such key; a value of another type is a problem.
  std::optional<int64_t> whole(const ForeignKey* key);
  std::optional<double> number(const ForeignKey* key);
  std::optional<bool> flag(const ForeignKey* key);
  std::optional<std::string> text(const ForeignKey* key);  // as it is written
  std::optional<Names> texts(const ForeignKey* key);
  std::optional<Numbers> numbers(const ForeignKey* key);
  std::optional<int64_t> whole(std::string_view name) { return whole(find(name)); }
  std::optional<double> number(std::string_view name) { return number(find(name)); }
  std::optional<bool> flag(std::string_view name) { return flag(find(name)); }
  std::optional<std::string> text(std::string_view name) { return text(find(name)); }
  std::optional<Names> texts(std::string_view name) { return texts(find(name)); }
  std::optional<Numbers> numbers(std::string_view name) { return numbers(find(name)); }
  bool is_on(std::string_view name) { return flag(name).value_or(false); }
  // A whole number. Unlike whole(), a value of another type is no problem: the result is empty.
  std::optional<int64_t> known_whole(std::string_view name) const;

  // Sets our key. `from`: the foreign key that the value comes from, or null. `note` becomes a comment beside it.
  void set(std::string_view key, Value value, const ForeignKey* from, std::string note = {});
  // Sets our key to the value of a foreign one, converted to our type. False: that key is missing or has another type.
  bool take(std::string_view key, const ForeignKey* from, std::string_view note = {});
  bool take(std::string_view key, std::string_view from, std::string_view note = {}) {
    return take(key, find(from), note);
  }
  // The same. If the foreign key is missing, sets the foreign program's default, with `why` beside it.
  void take_or(std::string_view key, const ForeignKey* from, Value standard, std::string_view why);
  void take_or(std::string_view key, std::string_view from, Value standard, std::string_view why) {
    take_or(key, find(from), std::move(standard), why);
  }
  // Sets our key if the foreign key is true.
  void set_if_on(std::string_view key, Value value, std::string_view from, std::string_view note = {});
  // Sets our key to the foreign program's default, unless it is set or our default is the same.
  void assume(std::string_view key, Value value, std::string_view why);
  bool is_set(std::string_view key) const { return items_.contains(key); }
  // The value of our key, or null.
  template <typename T>
  const T* value(std::string_view key) const {
    const auto found = items_.find(key);
    return found == items_.end() ? nullptr : &std::get<T>(found->second.value);
  }
  int64_t num_keys() const { return static_cast<int64_t>(items_.size()); }

  void note(std::string text) { notes_.push_back(std::move(text)); }
  void refuse(const ForeignKey& key, std::string_view why, std::string_view fix = {});
  void refuse(std::string_view name, std::string_view why, std::string_view fix = {}) { refuse(*find(name), why, fix); }
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
  void apply(const ForeignKey& key, const ImportRule& rule, std::span<const ImportRule> all);
  void copy(const ForeignKey& key, const ImportRule& rule);
  // What `read` makes of a key's value. A value that it cannot read is a problem.
  template <typename Read>
  auto as(const ForeignKey* key, Read read, std::string_view expected) -> decltype(read(key->value));

  std::string program_;
  std::vector<ForeignKey> keys_;
  ImportOptions options_;
  bool ranks_are_given_;  // by --ranks, and not yet compared with the files
  std::map<std::string, Item, std::less<>> items_;
  std::vector<std::string> notes_, ignored_, left_out_, variables_;
  std::vector<const ForeignKey*> read_;              // keys of rules kRead
  std::map<std::string, const ForeignKey*> copied_;  // what gave our key its value, by rules kCopy
  std::vector<std::pair<const ForeignKey*, const ForeignKey*>> conflicts_;  // two of them with other values
  std::vector<Problem> problems_;
};

}  // namespace hearth::config
