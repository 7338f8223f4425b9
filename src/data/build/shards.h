// SPDX-License-Identifier: Apache-2.0
// Writes shards of arrays and shards whose tokens are in another file, and the document columns that all shards have.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "data/build/plan.h"
#include "data/shard/shard_reader.h"
#include "data/shard/shard_writer.h"

namespace hearth::data {

// The columns with the ends and the origins of a shard's documents.
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
    writer.add_column(kDocumentEndsColumn, ColumnAxis::kDocument, ends);
    writer.add_column(kTextBytesColumn, ColumnAxis::kDocument, text_bytes);
    writer.add_column(kSourceColumn, ColumnAxis::kDocument, sources);
    writer.add_column(kSourceOffsetColumn, ColumnAxis::kDocument, positions);
  }
};

// A shard of arrays: their counts, shapes and labels, and each array's end in the stream of tokens that reading gives.
ShardHeader write_array_shard(const Path& path, const std::string& identity, const std::vector<Document>& documents,
                              const recordings::ArrayStream& stream, BuildProgress& progress);

// Tokens of the whole shard, as read.
int64_t stream_tokens(const ShardReader& shard);

// Shards whose tokens stay in their token file: --in-place. They save the disk space of a copy, and need the token file
// as long as they are read. A shard has the documents' ends and the checksums of its range of the file. Readers treat
// it like any other (shard_reader.h).
//
// Throws user_error for rules that leave out or choose documents: a shard's documents must be one run. Also for a
// source that is no token file, or one whose elements cannot be a shard's tokens.
void check_in_place(const std::vector<SourceFile>& sources, const BuildRules& rules);

// `documents` are consecutive in one source.
ShardHeader write_outside_shard(const Path& path, const std::string& identity, const std::vector<Document>& documents,
                                const BuildPlan& plan, const BuildRules& rules, BuildProgress& progress);

}  // namespace hearth::data
