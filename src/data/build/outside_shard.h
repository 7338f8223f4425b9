// Shards whose tokens stay in their token file: --in-place. Such a shard has the documents' ends and the checksums of
// its range of the file. To a reader it is a shard like any other (shard_reader.h).
#pragma once

#include <string>
#include <vector>

#include "data/build/plan.h"
#include "data/shard/shard_format.h"

namespace hearth::data {

// Throws user_error for rules that leave out or choose documents: a shard's documents must be one run. Also for a
// source that is no token file, or one whose elements cannot be a shard's tokens.
void check_in_place(const std::vector<SourceFile>& sources, const BuildRules& rules);

// `documents` are consecutive in one source.
ShardHeader write_outside_shard(const Path& path, const std::string& identity, const std::vector<Document>& documents,
                                const BuildPlan& plan, const BuildRules& rules, BuildProgress& progress);

}  // namespace hearth::data
