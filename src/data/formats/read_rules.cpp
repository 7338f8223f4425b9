// SPDX-License-Identifier: Apache-2.0
#include "data/formats/read_rules.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "base/error.h"
#include "base/text.h"
#include "data/formats/indexed_file.h"

namespace hearth::data {
namespace {

struct FormatRow {
  Format format;
  std::string_view name;
  bool ids, rows, keys;
};

// In the order of the enum.
constexpr std::array kFormats = {
    FormatRow{Format::kText, "text", false, false, false},     FormatRow{Format::kJsonl, "jsonl", false, false, true},
    FormatRow{Format::kIndexed, "bin-idx", true, true, false}, FormatRow{Format::kNpy, "npy", false, false, false},
    FormatRow{Format::kParquet, "parquet", true, true, true},  FormatRow{Format::kArrow, "arrow", true, true, true},
    FormatRow{Format::kJson, "json", false, false, true},      FormatRow{Format::kCsv, "csv", false, false, true},
};

const FormatRow& row_of(Format format) { return kFormats.at(static_cast<size_t>(format)); }

}  // namespace

std::string_view format_name(Format format) { return row_of(format).name; }
bool may_give_ids(Format format) { return row_of(format).ids; }
bool has_keys(Format format) { return row_of(format).keys; }
bool counts_rows(Format format) { return row_of(format).rows; }

std::vector<std::string> format_names() {
  std::vector<std::string> names;
  for (const FormatRow& row : kFormats) names.emplace_back(row.name);
  return names;
}

Format parse_format(std::string_view name) {
  const auto* row = std::ranges::find(kFormats, name, &FormatRow::name);
  if (row == kFormats.end())
    throw user_error(fmt::format("there is no format \"{}\"", name), "", "one of: " + join(format_names()));
  return row->format;
}

std::string_view problem_name(RecordProblem problem) {
  constexpr std::array<std::string_view, kNumProblems> kNames = {
      "none", "malformed", "missing_key", "wrong_type", "not_unicode", "too_long", "unreadable"};
  return kNames.at(static_cast<size_t>(problem));
}

// "spike_counts" is the name in the neural-data repositories.
std::string default_text_key(bool arrays) { return arrays ? "spike_counts" : "text"; }

void check_read_rules(const ReadRules& rules) {
  if (rules.document_bytes < 0) throw user_error(fmt::format("--document-bytes {} is negative", rules.document_bytes));
  if (!rules.format.empty()) parse_format(rules.format);
  const std::vector<std::string> dialects = index_dialects();
  if (!rules.dialect.empty() && std::ranges::find(dialects, rules.dialect) == dialects.end())
    throw user_error(fmt::format("there is no dialect \"{}\"", rules.dialect), "", "one of: " + join(dialects));
  if (rules.max_record_bytes < 1)
    throw user_error(fmt::format("--max-record-bytes {} is too small", rules.max_record_bytes));
  if (rules.text_keys.empty() || std::ranges::count(rules.text_keys, "") > 0)
    throw user_error("--text-key needs a name", "", "give --text-key text");
  for (const std::string& key : rules.text_keys) {
    if (std::ranges::count(rules.text_keys, key) > 1)
      throw user_error(fmt::format("--text-key {} is given twice", key), "each document would have its text twice",
                       "give each key once");
  }
  for (const std::string& key : rules.loss_keys) {
    if (std::ranges::find(rules.text_keys, key) != rules.text_keys.end()) continue;
    throw user_error(fmt::format("--loss-key {} names no text", key),
                     fmt::format("the texts are those of --text-key: {}", join(rules.text_keys)),
                     fmt::format("add --text-key {} in the order of the texts, or name another key", key));
  }
}

}  // namespace hearth::data
