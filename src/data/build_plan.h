// What a build will write, as far as it is decided by the files and the rules, before records are read.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "data/build.h"
#include "data/discover.h"
#include "data/holdout.h"
#include "data/units.h"
#include "tokenizer/tokenizer.h"

namespace hearth::data {

inline constexpr size_t kNumSplits = 2;
inline constexpr std::string_view kSplitNames[kNumSplits] = {"train", "validation"};

struct BuildPlan {
  std::unique_ptr<tokenizer::Tokenizer> tokenizer;
  Discovery found;
  std::vector<Unit> units;
  Holdout holdout;
  std::vector<std::string> unit_identities;  // hash over all that decides a unit's documents and their tokens
  std::string identity;                      // of all units: the same build or not

  std::string shard_identity(size_t split, size_t unit, int64_t group) const;
};

// "train-000012-0003.shard"
std::string shard_name(size_t split, size_t unit, int64_t group);
// What a shard of that name must have as its identity; empty for a name that no shard of this plan has.
std::string planned_identity(const BuildPlan& plan, const std::string& name);

// Hashes all files. Throws user_error for rules that make no sense, and what discover and find_holdout throw.
BuildPlan plan_build(const BuildOptions& options, std::unique_ptr<tokenizer::Tokenizer> tokenizer,
                     HashProgress& progress);

}  // namespace hearth::data
