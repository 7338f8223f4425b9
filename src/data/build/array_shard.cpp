// SPDX-License-Identifier: Apache-2.0
#include "data/build/shards.h"

#include <algorithm>
#include <cstring>

#include "base/error.h"

namespace hearth::data {
namespace {

// One text per document, all as wide as the longest: zeros fill the rest.
void append_label_column(ShardWriter& writer, const std::vector<Document>& documents, size_t label) {
  size_t width = 1;
  for (const Document& document : documents) width = std::max(width, document.array->labels[label].size());
  writer.begin_column(recordings::kLabelNames[label], ElementType::kU8, ColumnAxis::kDocument, {width});
  for (const Document& document : documents) {
    const std::string& text = document.array->labels[label];
    std::vector<uint8_t> row(text.begin(), text.end());
    row.resize(width);
    writer.append(row);
  }
}

}  // namespace

ShardHeader write_array_shard(const Path& path, const std::string& identity, const std::vector<Document>& documents,
                              const recordings::ArrayStream& stream, BuildProgress& progress) {
  ShardWriter writer(path, identity);
  std::vector<uint64_t> ends, stream_ends, shapes, positions;
  std::vector<uint32_t> sources;
  uint64_t cells = 0, tokens = 0;
  writer.begin_column(kTokensColumn, ElementType::kU8, ColumnAxis::kToken);
  for (const Document& document : documents) {
    const recordings::SpikeArray& array = *document.array;
    writer.append(array.counts);
    const auto added = static_cast<uint64_t>(stream.tokens(array.shape));
    ends.push_back(cells += array.counts.size());
    stream_ends.push_back(tokens += added);
    shapes.push_back(static_cast<uint64_t>(array.shape.bins));
    shapes.push_back(static_cast<uint64_t>(array.shape.neurons));
    sources.push_back(static_cast<uint32_t>(document.source));
    positions.push_back(static_cast<uint64_t>(document.position));
    progress.text_bytes_done += static_cast<int64_t>(array.counts.size());
    progress.tokens_done += static_cast<int64_t>(added);
  }
  writer.add_column(kDocumentEndsColumn, ColumnAxis::kDocument, ends);
  writer.add_column(kStreamEndsColumn, ColumnAxis::kDocument, stream_ends);
  writer.begin_column(kArrayShapeColumn, ElementType::kU64, ColumnAxis::kDocument, {2});
  writer.append(shapes);
  writer.add_column(kSourceColumn, ColumnAxis::kDocument, sources);
  writer.add_column(kSourceOffsetColumn, ColumnAxis::kDocument, positions);
  for (size_t label = 0; label < recordings::kLabelNames.size(); ++label) append_label_column(writer, documents, label);
  return writer.finish();
}

int64_t stream_tokens(const ShardReader& shard) {
  const Column* ends = shard.find_column(kStreamEndsColumn);
  HEARTH_CHECK(ends != nullptr && ends->type == ElementType::kU64 && ends->num_rows > 0);
  uint64_t last = 0;
  const auto bytes = shard.column_bytes(*ends);
  std::memcpy(&last, bytes.data() + bytes.size() - sizeof last, sizeof last);
  return static_cast<int64_t>(last);
}

}  // namespace hearth::data
