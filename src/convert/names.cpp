// SPDX-License-Identifier: Apache-2.0
#include "convert/names.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <iterator>
#include <set>

#include "base/error.h"
#include "config/families.h"

namespace hearth::convert {
namespace {

// A table of names.toml. The first `*` stands for the layer's number, the next for the expert's.
struct NameRow {
  std::string hearth, hugging_face, torchtitan, llada, heads;
  int64_t dimension = -1;
  bool is_rotated = false, is_joined = false, by_head = false, is_row = false, is_stacked = false;
};
using NameTable = std::vector<NameRow>;

NameTable read_table(const config::FamilyFile& file) {
  NameTable table;
  for (const config::TomlEntry& entry : config::entries_of(file)) {
    if (entry.key.empty()) {
      table.push_back(
          {.hearth = entry.section, .hugging_face = {}, .torchtitan = entry.section, .llada = {}, .heads = {}});
      continue;
    }
    const auto set = [&](std::string_view name, auto& member) { return config::take(file, entry, name, member); };
    NameRow& row = table.back();
    const bool is_known = set("hugging_face", row.hugging_face) || set("torchtitan", row.torchtitan) ||
                          set("llada", row.llada) || set("dimension", row.dimension) || set("heads", row.heads) ||
                          set("is_rotated", row.is_rotated) || set("is_joined", row.is_joined) ||
                          set("by_head", row.by_head) || set("is_row", row.is_row) || set("is_stacked", row.is_stacked);
    HEARTH_CHECK(is_known, "src/models/{}/{}:{}: {}", file.family, file.name, entry.line, entry.key);
  }
  return table;
}

// Each family's own names, then Llama's.
const NameTable& names_of(std::string_view family) {
  static const auto tables = [] {
    std::map<std::string_view, NameTable> all;
    for (const config::FamilyFile& file : config::family_files()) {
      NameTable& table = all[file.family];
      if (file.name == "names.toml") table = read_table(file);
    }
    const NameTable llama = all.at(kLlama);
    for (auto& [name, table] : all) {
      if (name != kLlama) table.insert(table.end(), llama.begin(), llama.end());
    }
    return all;
  }();
  return tables.at(family);
}

std::optional<std::string> renamed(std::string_view name, std::string NameRow::*from, std::string NameRow::*to,
                                   std::string_view family) {
  for (const NameRow& row : names_of(family)) {
    const std::optional<std::vector<std::string_view>> numbers = matched(row.*from, name);
    if (!numbers || (row.*to).empty()) continue;
    return numbered(row.*to, *numbers);
  }
  return std::nullopt;
}

bool has_in_table(std::string_view name, std::string_view family, bool NameRow::*property) {
  const NameTable& table = names_of(family);
  return std::any_of(table.begin(), table.end(),
                     [&](const NameRow& row) { return row.*property && matched(row.hearth, name); });
}

constexpr std::string_view kWrappers[] = {"module", "_orig_mod", "_fsdp_wrapped_module", "_checkpoint_wrapped_module",
                                          "_forward_module"};

bool is_wrapper(std::string_view part) {
  return std::find(std::begin(kWrappers), std::end(kWrappers), part) != std::end(kWrappers);
}

}  // namespace

std::optional<std::vector<std::string_view>> matched(std::string_view pattern, std::string_view name) {
  std::vector<std::string_view> numbers;
  while (true) {
    const size_t star = pattern.find('*');
    const std::string_view text = pattern.substr(0, star);
    if (!name.starts_with(text)) return std::nullopt;
    name.remove_prefix(text.size());
    if (star == std::string_view::npos) return name.empty() ? std::optional(numbers) : std::nullopt;
    pattern.remove_prefix(star + 1);
    const std::string_view number = name.substr(0, name.find_first_not_of("0123456789"));
    if (number.empty() || number.size() > 6 || (number.size() > 1 && number[0] == '0')) return std::nullopt;
    numbers.push_back(number);
    name.remove_prefix(number.size());
  }
}

std::optional<std::vector<int64_t>> numbers_in(std::string_view pattern, std::string_view name, int64_t most) {
  std::vector<int64_t> numbers;
  while (!pattern.empty()) {
    const std::string_view text = pattern.substr(0, pattern.find('*'));
    if (!name.starts_with(text)) return std::nullopt;
    name.remove_prefix(text.size());
    pattern.remove_prefix(text.size());
    if (pattern.empty()) break;
    pattern.remove_prefix(1);
    int64_t& number = numbers.emplace_back();
    if (name.empty() || name[0] < '0' || name[0] > '9') return std::nullopt;
    const auto [end, error] = std::from_chars(name.data(), name.data() + name.size(), number);
    if (error != std::errc() || number > most) return std::nullopt;
    name.remove_prefix(static_cast<size_t>(end - name.data()));
  }
  return name.empty() ? std::optional(numbers) : std::nullopt;
}

std::string numbered(std::string pattern, std::span<const std::string_view> numbers) {
  size_t from = 0;
  for (const std::string_view number : numbers) {
    const size_t star = pattern.find('*', from);
    if (star == std::string::npos) break;
    pattern.replace(star, 1, number);
    from = star + number.size();
  }
  return pattern;
}
std::string numbered(std::string pattern, int64_t number) {
  const std::string text = std::to_string(number);
  const std::string_view numbers[] = {text};
  return numbered(std::move(pattern), numbers);
}

std::optional<std::string> from_hugging_face(std::string_view name, std::string_view family) {
  return renamed(name, &NameRow::hugging_face, &NameRow::hearth, family);
}
std::optional<std::string> to_hugging_face(std::string_view name, std::string_view family) {
  return renamed(name, &NameRow::hearth, &NameRow::hugging_face, family);
}

std::vector<std::string> joined_in_hugging_face(std::string_view name, std::string_view family) {
  std::vector<std::string> names;
  for (const NameRow& row : names_of(family)) {
    const std::optional<std::vector<std::string_view>> numbers = matched(row.hearth, name);
    if (!numbers) continue;
    for (const NameRow& other : names_of(family)) {
      if (row.is_joined && other.is_joined && other.hugging_face == row.hugging_face)
        names.push_back(numbered(other.hearth, *numbers));
    }
    break;
  }
  return names.empty() ? std::vector{std::string(name)} : names;
}

bool alternate_by_head(std::string_view name, std::string_view family) {
  return has_in_table(name, family, &NameRow::by_head);
}

std::vector<std::string> stacked_in_hugging_face(std::string_view name, std::string_view family) {
  std::vector<std::string> names;
  for (const NameRow& row : names_of(family)) {
    const auto numbers = row.is_stacked ? matched(row.hugging_face, name) : std::nullopt;
    if (numbers) names.push_back(numbered(row.hearth, *numbers));
  }
  return names;
}

StackedPlace stacked_place(std::string_view name, std::string_view family) {
  const NameTable& table = names_of(family);
  const auto own =
      std::find_if(table.begin(), table.end(), [&](const NameRow& row) { return matched(row.hearth, name); });
  StackedPlace found;
  if (own == table.end() || !own->is_stacked) return found;
  for (auto row = table.begin(); row != table.end(); ++row) {
    if (row == own) found.place = found.count;
    if (row->is_stacked && row->hugging_face == own->hugging_face) ++found.count;
  }
  return found;
}

bool is_row_in_hugging_face(std::string_view name, std::string_view family) {
  return has_in_table(name, family, &NameRow::is_row);
}

std::optional<std::string> from_torchtitan(std::string_view name) {
  return renamed(name, &NameRow::torchtitan, &NameRow::hearth, kLlama);
}
std::optional<std::string> to_torchtitan(std::string_view name) {
  return renamed(name, &NameRow::hearth, &NameRow::torchtitan, kLlama);
}
std::optional<std::string> from_llada(std::string_view name) {
  return renamed(name, &NameRow::llada, &NameRow::hearth, kLlama);
}
std::optional<std::string> to_llada(std::string_view name) {
  return renamed(name, &NameRow::hearth, &NameRow::llada, kLlama);
}

std::string unwrapped(std::string_view name) {
  std::string plain;
  while (!name.empty()) {
    const size_t dot = std::min(name.find('.'), name.size());
    const std::string_view part = name.substr(0, dot);
    name.remove_prefix(std::min(dot + 1, name.size()));
    // The last part is the tensor's own name.
    if (!name.empty() && is_wrapper(part)) continue;
    if (!plain.empty()) plain += '.';
    plain += part;
  }
  return plain;
}

std::optional<std::string> from_wrapped_hugging_face(std::string_view name, std::string_view family) {
  const std::string plain = unwrapped(name);
  if (auto known = from_hugging_face(plain, family)) return known;
  if (auto known = from_hugging_face("model." + plain, family)) return known;
  return from_hugging_face(without_model(plain), family);
}

void Renaming::add(const std::string& stored, const std::string& name, std::string_view plain) {
  const auto [found, is_new] = stored_.emplace(name, stored);
  if (!is_new)
    throw user_error(fmt::format("{} has {} and {}, which are one weight", origin_, found->second, stored),
                     "only what a wrapper of the module put into the names tells them apart",
                     "save the model's own state_dict again");
  if (stored == plain) return;
  if (changed_++ > 0) return;
  first_ = stored;
  first_plain_ = plain;
}

std::vector<std::string> Renaming::notes() const {
  if (changed_ == 0) return {};
  return {fmt::format("{} written by a wrapper or by another class: {} is read as {}",
                      changed_ == 1 ? "1 name was" : fmt::format("{} names were", changed_), first_, first_plain_)};
}

NameParts parts_of(std::string_view name) {
  constexpr std::string_view kState = "optimizer.state.";
  const size_t end = name.rfind('.');
  if (!name.starts_with(kState) || end <= kState.size()) return {"", std::string(name), ""};
  return {std::string(kState), std::string(name.substr(kState.size(), end - kState.size())),
          std::string(name.substr(end))};
}

bool is_training_state(std::string_view name) {
  for (const std::string_view state : {"optimizer", "lr_scheduler", "dataloader", "train_state"}) {
    if (name == state || (name.starts_with(state) && name[state.size()] == '.')) return true;
  }
  return false;
}

bool is_computed(std::string_view name) { return name == "rope.freqs" || name.ends_with(".rotary_emb.inv_freq"); }

namespace {

// "layers.*.attention.wq.weight" -> ".attention.wq.", of every rotated weight: a moment's name goes on after it.
std::set<std::string> rotated_parts() {
  std::set<std::string> parts;
  for (const config::Family& family : config::families()) {
    for (const NameRow& row : names_of(family.name)) {
      const size_t begin = row.hearth.find('*') + 1;
      if (row.is_rotated) parts.insert(row.hearth.substr(begin, row.hearth.rfind('.') + 1 - begin));
    }
  }
  return parts;
}

}  // namespace

bool has_pairs(std::string_view name) {
  static const std::set<std::string> parts = rotated_parts();
  return std::any_of(parts.begin(), parts.end(),
                     [name](const std::string& part) { return name.find(part) != name.npos; });
}

HeadKind heads_named(std::string_view name) {
  HEARTH_CHECK(name.empty() || name == "queries" || name == "keys", "heads = {}", name);
  return name.empty() ? HeadKind::kNone : name == "keys" ? HeadKind::kKeys : HeadKind::kQueries;
}

RankCut cut_of(std::string_view name) {
  for (const NameRow& row : names_of(kLlama)) {
    if (row.dimension >= 0 && (row.hearth == name || matched(row.hearth, name)))
      return {static_cast<size_t>(row.dimension), heads_named(row.heads)};
  }
  return {};
}

}  // namespace hearth::convert
