// A shard of arrays: their counts, shapes and labels, and each array's end in the stream of tokens that reading gives.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/file.h"
#include "data/build/build.h"
#include "data/build/portion_reader.h"
#include "data/shard/array_stream.h"
#include "data/shard/shard_reader.h"

namespace hearth::data {

ShardHeader write_array_shard(const Path& path, const std::string& identity, const std::vector<Document>& documents,
                              const ArrayStream& stream, BuildProgress& progress);

// Tokens of the whole shard, as read.
int64_t stream_tokens(const ShardReader& shard);

}  // namespace hearth::data
