// SPDX-License-Identifier: Apache-2.0
#include "data/build/shards.h"

#include "base/error.h"
#include "data/formats/indexed_file.h"
#include "data/shard/weight_column.h"

namespace hearth::data {

void check_in_place(const std::vector<SourceFile>& sources, const BuildRules& rules) {
  const auto refuse = [](std::string_view option, const char* fix) {
    return user_error(fmt::format("{} does not go with --in-place", option),
                      "the documents of a shard must be consecutive in their file", fix);
  };
  if (rules.validation > 0)
    throw refuse("--validation", "hold out by position: --split 969,30,1; or leave --in-place out");
  if (rules.dedup_exact) throw refuse("--dedup exact", "leave one of them out");
  if (rules.on_error != OnError::kStop)
    throw refuse(fmt::format("--on-error {}", on_error_name(rules.on_error)), "leave one of them out");
  for (const SourceFile& source : sources) {
    if (source.format != Format::kIndexed)
      throw user_error(
          fmt::format("{} cannot be used in place", source.path),
          fmt::format("it is read as {}: only token files can be used in place", format_name(source.format)),
          "leave --in-place out, or give only token files (NAME.bin)");
    if (!IndexedFile(source.real_path, rules.read.dialect).token_type())
      throw user_error(fmt::format("{} cannot be used in place", source.path),
                       "its tokens are stored as 64-bit integers or floating-point numbers, which shards cannot have",
                       "leave --in-place out");
  }
}

ShardHeader write_outside_shard(const Path& path, const std::string& identity, const std::vector<Document>& documents,
                                const BuildPlan& plan, const BuildRules& rules, BuildProgress& progress) {
  const SourceFile& source = plan.found.sources[documents.front().source];
  const IndexedFile file(source.real_path, rules.read.dialect);
  const ElementType type = file.token_type().value();
  const uint64_t size = element_size(static_cast<uint32_t>(type));
  const auto begin = static_cast<uint64_t>(file.offset(documents.front().position));
  DocumentColumns columns;
  WeightRuns weights;
  uint64_t tokens = 0;
  for (const Document& document : documents) {
    HEARTH_CHECK(document.source == documents.front().source &&
                     static_cast<uint64_t>(file.offset(document.position)) == begin + tokens * size,
                 "documents of a shard in place do not follow each other");
    tokens += document.data.size() / sizeof(uint32_t);
    columns.add(document, tokens, plan.text_bytes_of(document));
    if (document.weights.empty())
      weights.append(static_cast<int64_t>(document.data.size() / sizeof(uint32_t)), 1);
    else
      weights.append(document.weights);
    progress.text_bytes_done += static_cast<int64_t>(document.data.size());
    progress.tokens_done += static_cast<int64_t>(document.data.size() / sizeof(uint32_t));
  }
  ShardWriter writer(path, identity);
  columns.write(writer);
  write_weights(writer, weights);
  writer.add_outside_column(kTokensColumn, type, ColumnAxis::kToken, source.real_path, file.tokens().size(), begin,
                            file.tokens().subspan(begin, tokens * size));
  return writer.finish();
}

}  // namespace hearth::data
