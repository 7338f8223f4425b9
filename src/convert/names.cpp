#include "convert/names.h"

#include <algorithm>
#include <iterator>

#include "base/error.h"
#include "config/families.h"
#include "config/toml_text.h"

namespace hearth::convert {
namespace {

// A table of names.toml. `*` stands for the layer's number.
struct NameRow {
  std::string hearth, hugging_face, torchtitan;
  int64_t meta_dimension = -1;
  bool is_rotated = false;
};
using NameTable = std::vector<NameRow>;

NameTable read_table(const config::FamilyFile& file) {
  std::vector<config::TomlEntry> entries;
  const std::optional<config::TomlError> error = config::parse_toml(file.text, entries);
  HEARTH_CHECK(!error, "src/models/{}/{}:{}: {}", file.family, file.name, error->line, error->what);
  NameTable table;
  for (const config::TomlEntry& entry : entries) {
    if (entry.key.empty()) {
      table.push_back({entry.section, {}, entry.section});
      continue;
    }
    NameRow& row = table.back();
    if (entry.key == "hugging_face")
      row.hugging_face = std::get<std::string>(*entry.value);
    else if (entry.key == "torchtitan")
      row.torchtitan = std::get<std::string>(*entry.value);
    else if (entry.key == "meta_dimension")
      row.meta_dimension = std::get<int64_t>(*entry.value);
    else if (entry.key == "is_rotated")
      row.is_rotated = std::get<bool>(*entry.value);
    else
      HEARTH_CHECK(false, "src/models/{}/{}:{}: {}", file.family, file.name, entry.line, entry.key);
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

// The number at the pattern's `*`, or nothing without one; nullopt: another name. A number is as programs write it.
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

std::optional<std::string> renamed(std::string_view name, std::string NameRow::*from, std::string NameRow::*to,
                                   std::string_view family) {
  for (const NameRow& row : names_of(family)) {
    const std::optional<std::string_view> number = matched(row.*from, name);
    if (!number || (row.*to).empty()) continue;
    std::string other = row.*to;
    if (const size_t star = other.find('*'); star != std::string::npos) other.replace(star, 1, *number);
    return other;
  }
  return std::nullopt;
}

}  // namespace

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

bool is_training_state(std::string_view name) {
  for (const std::string_view state : {"optimizer", "lr_scheduler", "dataloader", "train_state"}) {
    if (name == state || (name.starts_with(state) && name[state.size()] == '.')) return true;
  }
  return false;
}

bool is_computed(std::string_view name) { return name == "rope.freqs" || name.ends_with(".rotary_emb.inv_freq"); }

bool has_pairs(std::string_view name) {
  // "layers.*.attention.wq.weight" -> ".attention.wq.": a moment's name goes on after the weight's.
  const auto is_of = [name](const NameRow& row) {
    const size_t begin = row.hearth.find('*') + 1;
    return row.is_rotated && name.find(row.hearth.substr(begin, row.hearth.rfind('.') + 1 - begin)) != name.npos;
  };
  return std::any_of(config::families().begin(), config::families().end(), [&](const config::Family& family) {
    const NameTable& names = names_of(family.name);
    return std::any_of(names.begin(), names.end(), is_of);
  });
}

std::optional<size_t> meta_split(std::string_view name) {
  for (const NameRow& row : names_of(kLlama)) {
    if (row.meta_dimension >= 0 && matched(row.hearth, name)) return static_cast<size_t>(row.meta_dimension);
  }
  return std::nullopt;
}

}  // namespace hearth::convert
