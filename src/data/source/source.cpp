#include "data/source/source.h"

#include "base/error.h"
#include "data/source/column_source.h"
#include "data/source/indexed_source.h"
#include "data/source/jsonl_source.h"
#include "data/source/npy_source.h"
#include "data/source/text_source.h"

namespace hearth::data {
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
