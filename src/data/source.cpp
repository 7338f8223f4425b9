#include "data/source.h"

#include <algorithm>
#include <array>

#include "base/error.h"
#include "base/text.h"
#include "data/text_source.h"

namespace hearth::data {
namespace {

struct FormatRow {
  Format format;
  std::string_view name;
  bool ids;
};

// In the order of the enum.
constexpr std::array kFormats = {
    FormatRow{Format::kText, "text", false},
};

const FormatRow& row_of(Format format) { return kFormats.at(static_cast<size_t>(format)); }

}  // namespace

std::string_view format_name(Format format) { return row_of(format).name; }
bool gives_ids(Format format) { return row_of(format).ids; }

std::vector<std::string> format_names() {
  std::vector<std::string> names;
  for (const FormatRow& row : kFormats) names.emplace_back(row.name);
  return names;
}

Format parse_format(std::string_view name) {
  const auto* row = std::find_if(kFormats.begin(), kFormats.end(), [&](const FormatRow& r) { return r.name == name; });
  if (row == kFormats.end())
    throw user_error(fmt::format("there is no format \"{}\"", name), "", "one of: " + join(format_names()));
  return row->format;
}

std::string_view problem_name(Problem problem) {
  constexpr std::array<std::string_view, kNumProblems> kNames = {
      "none", "malformed", "missing_key", "wrong_type", "not_unicode", "too_long", "unreadable"};
  return kNames.at(static_cast<size_t>(problem));
}

Format recognise(const Path&, const ReadRules& rules) {
  if (!rules.format.empty()) return parse_format(rules.format);
  return Format::kText;
}

bool can_be_cut(Format, const ReadRules&) { return false; }

std::unique_ptr<SourceReader> open_source(const SourceFile& file, const ReadRules& rules, SourceRange) {
  switch (file.format) {
    case Format::kText:
      return open_text_source(file.real_path, rules);
  }
  HEARTH_CHECK(false);
}

void check_read_rules(const ReadRules& rules) {
  if (rules.document_bytes < 0) throw user_error(fmt::format("--document-bytes {} is negative", rules.document_bytes));
  if (!rules.format.empty()) parse_format(rules.format);
}

}  // namespace hearth::data
