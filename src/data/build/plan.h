// What a build will write, as far as it is decided by the files and the rules, before records are read.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "data/build/build.h"
#include "data/build/duplicates.h"
#include "data/build/holdout.h"
#include "data/build/positional_split.h"
#include "data/build/records.h"
#include "data/build/units.h"
#include "data/shard/array_stream.h"
#include "data/source/discover.h"
#include "tokenizer/tokenizer.h"

namespace hearth::data {

inline constexpr size_t kNumSplits = 3;
inline constexpr std::string_view kSplitNames[kNumSplits] = {"train", "validation", "test"};

struct BuildPlan {
  std::unique_ptr<tokenizer::Tokenizer> tokenizer;
  std::optional<ArrayStream> arrays;  // where the tokenizer is one of arrays
  Discovery found;
  std::vector<Unit> units;              // of the whole corpus
  size_t first_unit = 0, end_unit = 0;  // those of this part
  Holdout holdout;
  Duplicates duplicates;                     // empty, or of each unit
  std::optional<PositionalSplit> positions;  // instead of the holdout; like duplicates, from all records
  std::vector<std::string> unit_identities;  // over all that decides a unit's documents and tokens; empty: not our part
  std::string identity;                      // over our units: the same build or not

  // Bytes of text that a token stands for, by id; empty where all sources are text, or nobody knows.
  std::vector<uint32_t> id_text_bytes;
  // Bytes of the text that a document is, or that its ids stand for.
  int64_t text_bytes_of(const Document& document) const;

  std::string shard_identity(size_t split, size_t unit, int64_t group) const;
};

// "train-000012-0003.shard"
std::string shard_name(size_t split, size_t unit, int64_t group);
// What a shard of that name must have as its identity; empty for a name that no shard of our part has.
std::string planned_identity(const BuildPlan& plan, const std::string& name);
// Whether a shard of that name is another part's.
bool is_of_another_part(const BuildPlan& plan, const std::string& name);

// Hashes the files of our part, or all where each matters to every part. Throws user_error for rules that make no
// sense, and what discover and find_holdout throw.
BuildPlan plan_build(const BuildOptions& options, std::unique_ptr<tokenizer::Tokenizer> tokenizer,
                     HashProgress& progress);

}  // namespace hearth::data
