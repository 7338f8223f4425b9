#include "data/source/source.h"

#include <algorithm>
#include <array>

#include "base/error.h"
#include "base/text.h"
#include "data/formats/indexed_file.h"
#include "data/source/column_source.h"
#include "data/source/indexed_source.h"
#include "data/source/jsonl_source.h"
#include "data/source/npy_source.h"
#include "data/source/text_source.h"

namespace hearth::data {
namespace {

struct FormatRow {
  Format format;
  std::string_view name;
  bool ids, rows;
};

// In the order of the enum.
constexpr std::array kFormats = {
    FormatRow{Format::kText, "text", false, false},     FormatRow{Format::kJsonl, "jsonl", false, false},
    FormatRow{Format::kIndexed, "bin-idx", true, true}, FormatRow{Format::kNpy, "npy", false, false},
    FormatRow{Format::kParquet, "parquet", true, true}, FormatRow{Format::kArrow, "arrow", true, true},
};

constexpr std::array<std::string_view, 3> kCompressions = {"none", "gzip", "zstd"};

const FormatRow& row_of(Format format) { return kFormats.at(static_cast<size_t>(format)); }

}  // namespace

std::string_view format_name(Format format) { return row_of(format).name; }
bool may_give_ids(Format format) { return row_of(format).ids; }
bool counts_rows(Format format) { return row_of(format).rows; }

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

std::string_view compression_name(Compression compression) {
  return kCompressions.at(static_cast<size_t>(compression));
}

Compression parse_compression(std::string_view name) {
  const auto* found = std::find(kCompressions.begin(), kCompressions.end(), name);
  if (found == kCompressions.end()) throw user_error(fmt::format("there is no compression \"{}\"", name));
  return static_cast<Compression>(found - kCompressions.begin());
}

bool can_be_cut(const SourceFile& file) {
  if (file.format == Format::kJsonl) return file.compression == Compression::kNone;
  return file.format != Format::kText && file.format != Format::kNpy;
}

std::unique_ptr<SourceReader> open_source(const SourceFile& file, const ReadRules& rules, SourceRange range) {
  switch (file.format) {
    case Format::kText:
      return open_text_source(file, rules);
    case Format::kJsonl:
      return open_jsonl_source(file, rules, range);
    case Format::kIndexed:
      return open_indexed_source(file, rules, range);
    case Format::kNpy:
      return open_npy_source(file, rules);
    case Format::kParquet:
    case Format::kArrow:
      return open_column_source(file, rules, range);
  }
  HEARTH_CHECK(false);
}

// The neural-data repositories' name.
std::string default_text_key(bool arrays) { return arrays ? "spike_counts" : "text"; }

void check_read_rules(const ReadRules& rules) {
  if (rules.document_bytes < 0) throw user_error(fmt::format("--document-bytes {} is negative", rules.document_bytes));
  if (!rules.format.empty()) parse_format(rules.format);
  const std::vector<std::string> dialects = index_dialects();
  if (!rules.dialect.empty() && std::find(dialects.begin(), dialects.end(), rules.dialect) == dialects.end())
    throw user_error(fmt::format("there is no dialect \"{}\"", rules.dialect), "", "one of: " + join(dialects));
  if (rules.max_record_bytes < 1)
    throw user_error(fmt::format("--max-record-bytes {} is too small", rules.max_record_bytes));
  if (rules.text_keys.empty() || std::count(rules.text_keys.begin(), rules.text_keys.end(), "") > 0)
    throw user_error("--text-key needs a name", "", "give --text-key text");
  for (const std::string& key : rules.loss_keys) {
    if (std::find(rules.text_keys.begin(), rules.text_keys.end(), key) != rules.text_keys.end()) continue;
    throw user_error(fmt::format("--loss-key {} names no text", key),
                     fmt::format("the texts are those of --text-key: {}", join(rules.text_keys)),
                     fmt::format("add --text-key {} where the text has its place, or name another one", key));
  }
}

void check_weight_keys(const SourceFile& file, const ReadRules& rules) {
  const bool is_table = file.format == Format::kParquet || file.format == Format::kArrow;
  const bool has_keys = is_table || file.format == Format::kJsonl;
  const auto refuse = [&](std::string_view option, const char* why, const char* fix) {
    throw user_error(fmt::format("{} does not go with {}", option, file.path),
                     fmt::format("it is read as {}: {}", format_name(file.format), why), fix);
  };
  const char* no_keys = "there are no keys";
  const char* fix = file.format == Format::kIndexed ? "give a second token file with the labels: --labels PATH"
                                                    : "leave it out, or give JSON lines, Parquet or Arrow files";
  if (!rules.loss_keys.empty() && !has_keys) refuse("--loss-key", no_keys, fix);
  if (!rules.weights_key.empty() && !has_keys) refuse("--weights-key", no_keys, fix);
  if (!rules.labels_key.empty() && !has_keys) refuse("--labels-key", no_keys, fix);
  if (!rules.labels_key.empty() && !is_table)
    refuse("--labels-key", "there are no token ids", "give --loss-key for texts that count, or --weights-key");
}

}  // namespace hearth::data
