// Shards whose tokens stay in the token file that they came from: --in-place. Such a shard holds where documents end
// and the checksums of its stretch of the file; to a reader it is a shard like any other (shard_reader.h).
#pragma once

#include <string>
#include <vector>

#include "data/build/plan.h"
#include "data/shard/shard_format.h"

namespace hearth::data {

// Throws user_error for rules that leave documents out or choose among them, since a shard's documents lie in one run;
// and for a source that is no token file, or one whose elements are no tokens of a shard.
void check_in_place(const std::vector<SourceFile>& sources, const BuildRules& rules);

// `documents` follow each other in one source.
ShardHeader write_outside_shard(const Path& path, const std::string& identity, const std::vector<Document>& documents,
                                const BuildPlan& plan, const BuildRules& rules, BuildProgress& progress);

}  // namespace hearth::data
