#include "data/source/source.h"

#include "base/error.h"
#include "data/source/column_source.h"
#include "data/source/csv_source.h"
#include "data/source/indexed_source.h"
#include "data/source/json_source.h"
#include "data/source/jsonl_source.h"
#include "data/source/npy_source.h"
#include "data/source/text_source.h"

namespace hearth::data {
bool can_be_cut(const SourceFile& file) {
  if (file.format == Format::kJsonl) return file.compression == Compression::kNone;
  return may_give_ids(file.format);
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
    case Format::kJson:
      return open_json_source(file, rules);
    case Format::kCsv:
      return open_csv_source(file, rules);
  }
  HEARTH_CHECK(false);
}

void check_weight_keys(const SourceFile& file, const ReadRules& rules) {
  const bool is_table = file.format == Format::kParquet || file.format == Format::kArrow;
  const bool has_keys = data::has_keys(file.format);
  const auto refuse = [&](std::string_view option, const char* why, const char* fix) {
    throw user_error(fmt::format("{} does not go with {}", option, file.path),
                     fmt::format("it is read as {}: {}", format_name(file.format), why), fix);
  };
  const char* no_keys = "there are no keys";
  const char* fix = file.format == Format::kIndexed ? "give a second token file with the labels: --labels PATH"
                                                    : "leave it out, or give JSON, CSV, Parquet or Arrow files";
  if (!rules.loss_keys.empty() && !has_keys) refuse("--loss-key", no_keys, fix);
  if (!rules.weights_key.empty() && !has_keys) refuse("--weights-key", no_keys, fix);
  if (!rules.labels_key.empty() && !has_keys) refuse("--labels-key", no_keys, fix);
  if (!rules.weights_key.empty() && file.format == Format::kCsv)
    refuse("--weights-key", "its fields are texts", "write the table as JSON lines or Parquet");
  if (!rules.labels_key.empty() && !is_table)
    refuse("--labels-key", "there are no token ids", "give --loss-key for texts that count, or --weights-key");
}

}  // namespace hearth::data
