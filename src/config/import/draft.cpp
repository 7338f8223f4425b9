// SPDX-License-Identifier: Apache-2.0
#include "config/import/draft.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "base/error.h"
#include "base/nearest.h"

namespace hearth::config {
namespace {

std::optional<int64_t> whole_of(const ForeignValue& value) {
  constexpr double kLargest = 9007199254740992.0;  // 2^53
  if (const auto* whole = std::get_if<int64_t>(&value.is)) return *whole;
  const auto number = number_of(value);
  if (!number || *number != std::floor(*number) || std::abs(*number) > kLargest) return std::nullopt;
  return static_cast<int64_t>(*number);
}

std::optional<bool> flag_of(const ForeignValue& value) {
  if (const auto* flag = std::get_if<bool>(&value.is)) return *flag;
  if (const auto* text = std::get_if<std::string>(&value.is)) {
    const ForeignValue plain = plain_scalar(*text);
    if (std::holds_alternative<bool>(plain.is)) return std::get<bool>(plain.is);
  }
  if (const auto whole = whole_of(value); whole && (*whole == 0 || *whole == 1)) return *whole == 1;
  return std::nullopt;
}

std::optional<std::string> text_of(const ForeignValue& value) {
  if (std::holds_alternative<ForeignList>(value.is)) return std::nullopt;
  return value.written();
}

// A list's elements, or the value alone.
ForeignList elements_of(const ForeignValue& value) {
  const auto* list = std::get_if<ForeignList>(&value.is);
  return list == nullptr ? ForeignList{value} : *list;
}

std::optional<Names> texts_of(const ForeignValue& value) {
  Names all;
  for (const ForeignValue& element : elements_of(value)) all.push_back(element.written());
  return all;
}

std::optional<Numbers> numbers_of(const ForeignValue& value) {
  Numbers all;
  for (const ForeignValue& element : elements_of(value)) {
    const auto number = number_of(element);
    if (!number) return std::nullopt;
    all.push_back(*number);
  }
  return all;
}

// A row of a list at the result's end.
std::string listed(const ForeignKey& key) { return fmt::format("{}  {}", key.where(), key.assignment()); }
std::string listed(const ForeignKey& key, std::string_view why) { return fmt::format("{}: {}", listed(key), why); }

// Whether a key is none of a program's options or files, and so no name to propose in place of another.
bool is_of_launch(std::string_view name) {
  return name.starts_with("launch.") || name.starts_with("env.") || name.starts_with('$');
}

// Whether an option of the program stands before it, where only the launcher gets it.
bool is_misplaced(std::span<const ImportRule> rules, std::string_view name) {
  constexpr std::string_view kLaunch = "launch.";
  if (!name.starts_with(kLaunch) || has_rule(rules, name)) return false;
  return std::any_of(rules.begin(), rules.end(), [own = name.substr(kLaunch.size())](const ImportRule& rule) {
    return rule.name == own && rule.kind != ImportRule::Kind::kIgnore;
  });
}

bool is_variable(std::string_view name) { return name.starts_with('$') || name.starts_with("env."); }

bool is_one_of(std::string_view values, std::string_view value) {
  for (size_t begin = 0; begin <= values.size();) {
    const size_t end = std::min(values.find('|', begin), values.size());
    if (values.substr(begin, end - begin) == value) return true;
    begin = end + 1;
  }
  return false;
}

}  // namespace

const Field* field_of(std::string_view key) {
  const size_t last = key.rfind('.'), number = key.rfind('.', last - 1);
  if (number == std::string_view::npos || number == last) return find_field(key);
  return find_list_field(key.substr(0, number), key.substr(last + 1));
}

Draft::Draft(std::string program, std::vector<ForeignKey> keys, ImportOptions options)
    : program_(std::move(program)),
      keys_(std::move(keys)),
      options_(std::move(options)),
      ranks_are_given_(options_.ranks > 0) {
  std::map<std::string, const ForeignKey*> first;
  for (const ForeignKey& key : keys_) {
    const auto [at, added] = first.emplace(key.name, &key);
    if (added) continue;
    problems_.push_back(
        problem_of(key, fmt::format("{} is given again; the first is in {}", key.called(), at->second->where()),
                   "keep one of the two"));
  }
  for (const std::string& name : options_.leave_out) {
    const auto is_it = [&name](const ForeignKey& key) { return key.name == name || key.shown == name; };
    const auto found = std::find_if(keys_.begin(), keys_.end(), is_it);
    if (found == keys_.end()) {
      problems_.push_back(
          {"--leave-out", 0, fmt::format("no file has a key {}", name), "give a key's name as its file has it", {}});
      continue;
    }
    left_out_.push_back(listed(*found));
    keys_.erase(found);
  }
}

void Draft::apply(std::span<const ImportRule> rules) {
  std::vector<std::string> names;
  for (const ImportRule& rule : rules) {
    if (!rule.name.ends_with('*') && !is_of_launch(rule.name)) names.emplace_back(rule.name);
  }
  for (const ForeignKey& key : keys_) {
    if (const ImportRule* rule = rule_for(rules, key.name)) {
      apply(key, *rule, rules);
    } else if (is_variable(key.name)) {
      variables_.push_back(listed(key));
    } else {
      const std::string meant = nearest(key.name, names);
      problems_.push_back(
          problem_of(key, fmt::format("{} has no key {}", program_, key.called()),
                     fmt::format("{}leave it out: --leave-out {}",
                                 meant.empty() ? "" : fmt::format("did you mean {}? Or ", meant), key.name)));
    }
  }
}

void Draft::apply(const ForeignKey& key, const ImportRule& rule, std::span<const ImportRule> all) {
  switch (rule.kind) {
    case ImportRule::Kind::kCopy:
      if (find(key.name) == &key) copy(key, rule);
      break;
    case ImportRule::Kind::kRead:
      read_.push_back(&key);
      break;
    case ImportRule::Kind::kIgnore:
      if (is_misplaced(all, key.name))
        refuse(key, "it stands before the program, which does not get it", "move it behind the program");
      else
        ignored_.push_back(listed(key, rule.words));
      break;
    case ImportRule::Kind::kOnly:
      if (find(key.name) == nullptr) break;
      if (is_one_of(rule.target, key.value.text()))
        ignored_.push_back(listed(key, rule.words));
      else
        refuse(key, rule.words, rule.fix);
      break;
    case ImportRule::Kind::kRefuse:
      if (!key.value.null()) refuse(key, rule.words, rule.fix);
      break;
  }
}

void Draft::copy(const ForeignKey& key, const ImportRule& rule) {
  const auto before = items_.find(rule.target);
  const std::optional<Value> value = before == items_.end() ? std::nullopt : std::optional(before->second.value);
  if (!take(rule.target, &key, rule.words)) return;
  const ForeignKey*& first = copied_[std::string(rule.target)];
  if (first != nullptr && value && items_.find(rule.target)->second.value != *value)
    conflicts_.push_back({&key, first});
  first = &key;
}

// Which of two names of one setting counts, only the other program knows.
void Draft::refuse_conflicts() {
  const auto has_problem = [this](const ForeignKey* key) {
    return std::any_of(problems_.begin(), problems_.end(),
                       [key](const Problem& p) { return p.key == key->name && p.where == key->where(); });
  };
  for (const auto& [second, first] : conflicts_) {
    if (has_problem(second) || has_problem(first)) continue;
    refuse(*second, fmt::format("{} of {} is given, too, and both are one setting", first->called(), first->where()),
           "keep one of the two");
  }
}

void Draft::take_ranks(int64_t ranks) {
  if (options_.ranks == 0) {
    options_.ranks = ranks;
  } else if (options_.ranks != ranks && ranks_are_given_) {
    note(fmt::format("The command starts {} rank{}; --ranks {} counts instead.", ranks, ranks == 1 ? "" : "s",
                     options_.ranks));
    ranks_are_given_ = false;  // one note is enough
  }
}

bool Draft::has_file(std::string_view path) const {
  return std::any_of(keys_.begin(), keys_.end(), [path](const ForeignKey& key) {
    return !key.from_command && base_name(key.file) == base_name(path);
  });
}

const ForeignKey* Draft::find(std::string_view name) const {
  const auto found = std::find_if(keys_.begin(), keys_.end(),
                                  [name](const ForeignKey& key) { return key.name == name && !key.value.null(); });
  return found == keys_.end() ? nullptr : &*found;
}

const ForeignKey* Draft::first_of(std::initializer_list<std::string_view> names) const {
  for (const std::string_view name : names)
    if (const ForeignKey* key = find(name)) return key;
  return nullptr;
}

bool Draft::text_is(std::string_view name, std::string_view text) const {
  const ForeignKey* key = find(name);
  return key != nullptr && key->value.text() == text;
}

std::vector<const ForeignKey*> Draft::keys_under(std::string_view begin) const {
  std::vector<const ForeignKey*> found;
  for (const ForeignKey& key : keys_) {
    if (key.name.starts_with(begin) && !key.value.null()) found.push_back(&key);
  }
  return found;
}

template <typename Read>
auto Draft::as(const ForeignKey* key, Read read, std::string_view expected) -> decltype(read(key->value)) {
  if (key == nullptr) return std::nullopt;
  if (auto value = read(key->value)) return value;
  const bool known = std::any_of(problems_.begin(), problems_.end(),
                                 [key](const Problem& p) { return p.key == key->name && p.where == key->where(); });
  if (!known) problems_.push_back(problem_of(*key, fmt::format("{}: not {}", key->assignment(), expected)));
  return std::nullopt;
}

std::optional<int64_t> Draft::whole(const ForeignKey* key) { return as(key, whole_of, "a whole number"); }
std::optional<double> Draft::number(const ForeignKey* key) { return as(key, number_of, "a number"); }
std::optional<bool> Draft::flag(const ForeignKey* key) { return as(key, flag_of, "true or false"); }
std::optional<std::string> Draft::text(const ForeignKey* key) { return as(key, text_of, "a text"); }
std::optional<Names> Draft::texts(const ForeignKey* key) { return as(key, texts_of, "a list of texts"); }
std::optional<Numbers> Draft::numbers(const ForeignKey* key) { return as(key, numbers_of, "a list of numbers"); }

std::optional<int64_t> Draft::known_whole(std::string_view name) const {
  const ForeignKey* key = find(name);
  return key == nullptr ? std::nullopt : whole_of(key->value);
}

bool Draft::take(std::string_view key, const ForeignKey* from, std::string_view note) {
  const Field* field = field_of(key);
  HEARTH_CHECK(field != nullptr, "{}", key);
  std::optional<Value> value;
  std::visit(
      [&]<typename T>(const T&) {
        if constexpr (std::is_same_v<T, bool>) value = flag(from);
        if constexpr (std::is_same_v<T, int64_t>) value = whole(from);
        if constexpr (std::is_same_v<T, double>) value = number(from);
        if constexpr (std::is_same_v<T, std::string>) value = text(from);
        if constexpr (std::is_same_v<T, Numbers>) value = numbers(from);
        if constexpr (std::is_same_v<T, Names>) value = texts(from);
      },
      field->default_value());
  if (value) set(key, std::move(*value), from, std::string(note));
  return value.has_value();
}

void Draft::take_or(std::string_view key, const ForeignKey* from, Value standard, std::string_view why) {
  if (!take(key, from)) set(key, std::move(standard), from, from == nullptr ? std::string(why) : "");
}

void Draft::set_if_on(std::string_view key, Value value, std::string_view from, std::string_view note) {
  if (is_on(from)) set(key, std::move(value), find(from), std::string(note));
}

void Draft::set(std::string_view key, Value value, const ForeignKey* from, std::string note) {
  const Field* field = field_of(key);
  HEARTH_CHECK(field != nullptr, "{}", key);
  HEARTH_CHECK(field->default_value().index() == value.index(), "{} has another type", key);
  if (from != nullptr && !field->limits.allow(value)) {
    problems_.push_back(problem_of(*from,
                                   fmt::format("{}: {} would be {}", from->assignment(), key, to_toml_value(value)),
                                   fmt::format("{} is {}", key, field->limits.text())));
    return;
  }
  items_[std::string(key)] = {std::move(value), from == nullptr ? "" : from->where(), std::move(note),
                              from == nullptr ? "" : from->called()};
}

void Draft::assume(std::string_view key, Value value, std::string_view why) {
  const Field* field = field_of(key);
  HEARTH_CHECK(field != nullptr && field->default_value().index() == value.index(), "{}", key);
  if (is_set(key) || value == field->default_value()) return;
  set(key, std::move(value), nullptr, std::string(why));
}

void Draft::refuse(const ForeignKey& key, std::string_view why, std::string_view fix) {
  problems_.push_back(
      problem_of(key, fmt::format("{}: {}", key.assignment(), why),
                 fmt::format("{}{}--leave-out {}", fix, fix.empty() ? "to import the rest: " : ", or import the rest: ",
                             is_variable(key.name) ? key.called() : key.name)));
}

void Draft::problem(std::string what, std::string fix) {
  problems_.push_back({{}, 0, std::move(what), std::move(fix), {}});
}

std::vector<std::string> Draft::read_together() const {
  std::vector<std::string> together;
  for (const ForeignKey* key : read_) {
    const bool has_own = std::any_of(items_.begin(), items_.end(), [key](const auto& item) {
      return item.second.from == key->called() && item.second.where == key->where();
    });
    if (!has_own && !key->value.null()) together.push_back(listed(*key));
  }
  return together;
}

Draft::Text Draft::write(std::string_view command) const {
  Text out;
  const auto line = [&out](std::string text, std::string origin = {}) {
    for (char& c : text) {  // no character of a foreign file may end a comment
      if (static_cast<unsigned char>(c) < ' ' || c == 127) c = ' ';
    }
    out.text += text + "\n";
    out.origins.push_back(std::move(origin));
  };
  const auto comment = [&line](std::string_view text, std::string_view begin) {
    constexpr size_t kWidth = 110;  // characters of a line of comment
    std::string row(begin);
    const std::string later(begin.size(), ' ');
    while (!text.empty()) {
      const std::string_view word = text.substr(0, text.find(' '));
      text.remove_prefix(std::min(word.size() + 1, text.size()));
      if (row.size() + word.size() > kWidth && row.size() > begin.size()) {
        line("# " + row);
        row = later;
      }
      row += row.size() > begin.size() ? fmt::format(" {}", word) : std::string(word);
    }
    line("# " + row);
  };
  comment(fmt::format("Made by `{}` from a run file of {}. Each key says where it comes from.", command, program_), "");
  for (const std::string& text : notes_) comment(text, "- ");

  const auto keys_of = [&](std::span<const Field> fields, std::string_view section, size_t item, const auto& head) {
    bool begun = false;
    for (const Field& field : fields) {
      if (field.section != section) continue;
      const auto found = items_.find(field.name(item));
      if (found == items_.end()) continue;
      if (!begun) {
        line("");
        line(head);
      }
      begun = true;
      const Item& value = found->second;
      std::string words = value.where.empty() ? value.note : fmt::format("{} {}", value.where, value.from);
      if (!value.where.empty() && !value.note.empty()) words += "; " + value.note;
      const std::string assignment = fmt::format("{} = {}", field.key, to_toml_value(value.value));
      line(words.empty() ? assignment : fmt::format("{:36}  # {}", assignment, words), value.where);
    }
    return begun;
  };
  for (const std::string& section : section_names()) {
    keys_of(fields(), section, 0, fmt::format("[{}]", section));
    for (const List& list : lists()) {
      if (list.section() != section) continue;
      for (size_t item = 0; keys_of(list_fields(), list.name, item, fmt::format("[[{}]]", list.name)); ++item) {
      }
    }
  }
  const auto appendix = [&](const std::string& title, const std::vector<std::string>& rows) {
    if (rows.empty()) return;
    line("");
    line("# " + title);
    for (const std::string& row : rows) comment(row, "  ");
  };
  appendix("Left out with --leave-out:", left_out_);
  appendix("Read together with the keys above, without a key of their own:", read_together());
  appendix("Without effect on what is trained, and left out:", ignored_);
  appendix("Variables of the environment, which are not read:", variables_);
  return out;
}

}  // namespace hearth::config
