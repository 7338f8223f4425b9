// SPDX-License-Identifier: Apache-2.0
#include "convert/rank_layout.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>

#include "base/error.h"
#include "config/families.h"

namespace hearth::convert {
namespace {

constexpr std::string_view kRanksFile = "ranks.toml";

// "slots attention.dense.weight" = [Hearth's names].
RankRow read_row(const config::FamilyFile& file, const config::TomlEntry& entry) {
  RankRow row;
  const size_t space = entry.key.find(' ');
  row.name = entry.key.substr(space + 1);  // npos + 1 is 0
  if (space != std::string::npos) row.variant = entry.key.substr(0, space);
  const config::Value value = config::typed(file, entry, config::Value(config::Names()));
  for (const std::string& name : std::get<config::Names>(value)) {
    const RankCut cut = cut_of(name);
    row.dimension = cut.dimension;
    row.sources.push_back({name, cut.heads});
    HEARTH_CHECK(std::get<config::Names>(value).size() == 1 || row.dimension == 0,
                 "src/models/{}/{}:{}: {} has no rows", file.family, file.name, entry.line, name);
  }
  return row;
}

std::map<std::string, RankTable, std::less<>> read_tables() {
  std::map<std::string, RankTable, std::less<>> tables;
  for (const config::FamilyFile& file : config::family_files()) {
    if (file.family != kLlama || file.name != kRanksFile) continue;
    for (const config::TomlEntry& entry : config::entries_of(file)) {
      RankTable& table = tables[entry.section];
      if (entry.key.empty()) continue;  // the section
      if (entry.value && std::holds_alternative<std::string>(*entry.value)) {
        for (RankRow& row : table.block) {
          if (row.variant == entry.key && row.sources.size() > 1)
            row.alternate_by = heads_named(std::get<std::string>(*entry.value));
        }
        continue;
      }
      RankRow row = read_row(file, entry);
      const bool is_block = row.sources.front().name.find('*') != std::string::npos;
      (is_block ? table.block : table.block.empty() ? table.before : table.behind).push_back(std::move(row));
    }
  }
  return tables;
}

// The first row for which `number_in` finds a layer's number, or nothing for a row without one, in this layer.
template <typename NumberIn>
std::optional<RankRow> find_row(const RankTable& table, const NumberIn& number_in) {
  for (const std::vector<RankRow>* rows : {&table.before, &table.block, &table.behind}) {
    for (const RankRow& row : *rows) {
      const std::optional<std::vector<std::string_view>> numbers = number_in(row);
      if (numbers) return numbers->empty() ? row : row.of_layer(std::stoll(std::string(numbers->front())));
    }
  }
  return std::nullopt;
}

}  // namespace

RankRow RankRow::of_layer(int64_t number) const {
  RankRow row = *this;
  row.layer = number;
  row.name = numbered(name, number);
  for (Source& source : row.sources) source.name = numbered(source.name, number);
  return row;
}

std::vector<std::string> RankRow::source_names() const {
  std::vector<std::string> names;
  for (const Source& source : sources) names.push_back(source.name);
  return names;
}

RankRow row_of(const std::string& hearth) {
  const RankCut cut = cut_of(hearth);
  return {hearth, {}, {{hearth, cut.heads}}, cut.dimension};
}

RankTable RankTable::with(std::initializer_list<std::string_view> variants) const {
  RankTable chosen = *this;
  for (std::vector<RankRow>* rows : {&chosen.before, &chosen.block, &chosen.behind}) {
    std::erase_if(*rows, [&](const RankRow& row) {
      return !row.variant.empty() && std::find(variants.begin(), variants.end(), row.variant) == variants.end();
    });
  }
  return chosen;
}

std::optional<RankRow> RankTable::find(std::string_view name) const {
  return find_row(*this, [&](const RankRow& row) { return matched(row.name, name); });
}

std::optional<RankRow> RankTable::find_source(std::string_view hearth) const {
  return find_row(*this, [&](const RankRow& row) {
    std::optional<std::vector<std::string_view>> numbers;
    for (const RankRow::Source& source : row.sources) numbers = numbers ? numbers : matched(source.name, hearth);
    return numbers;
  });
}

const RankTable& rank_table(std::string_view format) {
  static const std::map<std::string, RankTable, std::less<>> tables = read_tables();
  const auto found = tables.find(format);
  HEARTH_CHECK(found != tables.end(), "src/models/llama/ranks.toml has no [{}]", format);
  return found->second;
}

// Source of kInTurn: convert_checkpoints.py of NxD, which puts the queries in the order of the repeated keys.
std::vector<RankRun> RankLayout::runs(const RankRow& row, const std::vector<int64_t>& sizes, int64_t rank) const {
  std::vector<RankRun> own;
  for (size_t i = 0; i < row.sources.size(); ++i) {
    const HeadKind heads = row.sources[i].heads;
    const bool is_in_turn = heads != HeadKind::kNone && has_copies() && order_ == KeyOrder::kInTurn;
    const int64_t place = is_in_turn ? rank % keys_ * (ranks_ / keys_) + rank / keys_ : rank;  // among ranks by key
    const int64_t parts = owners(heads), count = sizes[i] / parts;
    own.push_back(row.dimension ? RankRun{i, place * parts / ranks_ * count, count} : RankRun{i, 0, sizes[i]});
  }
  if (row.alternate_by == HeadKind::kNone) return own;
  const int64_t slots = (row.alternate_by == HeadKind::kQueries ? queries_ : keys_) / ranks_;
  std::vector<RankRun> runs;
  for (int64_t slot = 0; slot < slots; ++slot) {
    for (const RankRun& run : own) {
      HEARTH_CHECK(run.count % slots == 0, "{}", row.name);
      runs.push_back({run.source, run.first + slot * run.count / slots, run.count / slots});
    }
  }
  return runs;
}

std::vector<int64_t> sizes_of(const RankRow& row, const plan::ModelShape& shape) {
  std::vector<int64_t> sizes;
  // What has no heads is as wide as the layer's feed-forward.
  const bool is_known = row.layer >= 0 && row.layer < shape.L();
  const int64_t width = is_known ? shape.layers[static_cast<size_t>(row.layer)].F : shape.F();
  for (const RankRow::Source& source : row.sources)
    sizes.push_back(source.heads == HeadKind::kQueries ? shape.H * shape.K
                    : source.heads == HeadKind::kKeys  ? shape.G * shape.K
                                                       : width);
  return sizes;
}

}  // namespace hearth::convert
