#include "convert/names.h"

#include <algorithm>
#include <set>

#include "base/error.h"
#include "config/families.h"

namespace hearth::convert {
namespace {

// A table of names.toml. `*` stands for the layer's number.
struct NameRow {
  std::string hearth, hugging_face, torchtitan, heads;
  int64_t dimension = -1;
  bool is_rotated = false;
};
using NameTable = std::vector<NameRow>;

NameTable read_table(const config::FamilyFile& file) {
  NameTable table;
  for (const config::TomlEntry& entry : config::entries_of(file)) {
    if (entry.key.empty()) {
      table.push_back({entry.section, {}, entry.section, {}});
      continue;
    }
    const auto set = [&](std::string_view name, auto& member) { return config::take(file, entry, name, member); };
    NameRow& row = table.back();
    const bool is_known = set("hugging_face", row.hugging_face) || set("torchtitan", row.torchtitan) ||
                          set("dimension", row.dimension) || set("heads", row.heads) ||
                          set("is_rotated", row.is_rotated);
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
    const std::optional<std::string_view> number = matched(row.*from, name);
    if (!number || (row.*to).empty()) continue;
    return numbered(row.*to, *number);
  }
  return std::nullopt;
}

}  // namespace

std::optional<std::string_view> matched(std::string_view pattern, std::string_view name) {
  const size_t star = pattern.find('*');
  if (star == std::string_view::npos) return pattern == name ? std::optional(std::string_view()) : std::nullopt;
  const std::string_view before = pattern.substr(0, star), after = pattern.substr(star + 1);
  if (name.size() <= before.size() + after.size() || !name.starts_with(before) || !name.ends_with(after)) return {};
  const std::string_view number = name.substr(before.size(), name.size() - before.size() - after.size());
  if (number.find_first_not_of("0123456789") != std::string_view::npos || number.size() > 6) return {};
  if (number.size() > 1 && number[0] == '0') return {};
  return number;
}

std::string numbered(std::string pattern, std::string_view number) {
  if (const size_t star = pattern.find('*'); star != std::string::npos) pattern.replace(star, 1, number);
  return pattern;
}

std::optional<std::string> from_hugging_face(std::string_view name, std::string_view family) {
  return renamed(name, &NameRow::hugging_face, &NameRow::hearth, family);
}
std::optional<std::string> to_hugging_face(std::string_view name, std::string_view family) {
  return renamed(name, &NameRow::hearth, &NameRow::hugging_face, family);
}

std::optional<std::string> from_torchtitan(std::string_view name) {
  return renamed(name, &NameRow::torchtitan, &NameRow::hearth, kLlama);
}
std::optional<std::string> to_torchtitan(std::string_view name) {
  return renamed(name, &NameRow::hearth, &NameRow::torchtitan, kLlama);
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

Heads heads_named(std::string_view name) {
  HEARTH_CHECK(name.empty() || name == "queries" || name == "keys", "heads = {}", name);
  return name.empty() ? Heads::kNone : name == "keys" ? Heads::kKeys : Heads::kQueries;
}

RankCut cut_of(std::string_view name) {
  for (const NameRow& row : names_of(kLlama)) {
    if (row.dimension >= 0 && (row.hearth == name || matched(row.hearth, name)))
      return {static_cast<size_t>(row.dimension), heads_named(row.heads)};
  }
  return {};
}

}  // namespace hearth::convert
