// The columns with the ends and the origins of a shard's documents.
#pragma once

#include <cstdint>
#include <vector>

#include "data/build/portion_reader.h"
#include "data/shard/shard_writer.h"

namespace hearth::data {

struct DocumentColumns {
  std::vector<uint64_t> ends, text_bytes, positions;
  std::vector<uint32_t> sources;

  // `end`: tokens of the shard up to the document's end. `bytes`: as BuildPlan::text_bytes_of.
  void add(const Document& document, uint64_t end, int64_t bytes) {
    ends.push_back(end);
    text_bytes.push_back(static_cast<uint64_t>(bytes));
    sources.push_back(static_cast<uint32_t>(document.source));
    positions.push_back(static_cast<uint64_t>(document.position));
  }

  void write(ShardWriter& writer) const {
    writer.begin_column(kDocumentEndsColumn, ElementType::kU64, Axis::kDocument);
    writer.append(ends);
    writer.begin_column(kTextBytesColumn, ElementType::kU64, Axis::kDocument);
    writer.append(text_bytes);
    writer.begin_column(kSourceColumn, ElementType::kU32, Axis::kDocument);
    writer.append(sources);
    writer.begin_column(kSourceOffsetColumn, ElementType::kU64, Axis::kDocument);
    writer.append(positions);
  }
};

}  // namespace hearth::data
