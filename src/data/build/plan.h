// SPDX-License-Identifier: Apache-2.0
// A build's plan: everything that is decided before bundles are written.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "data/build/build.h"
#include "data/build/duplicates.h"
#include "data/build/holdout.h"
#include "data/build/portion_reader.h"
#include "data/build/portions.h"
#include "data/build/positional_split.h"
#include "data/source/discover.h"
#include "recordings/array_stream.h"
#include "tokenizer/tokenizer.h"

namespace hearth::data {

inline constexpr size_t kNumSplits = 3;
inline constexpr std::string_view kSplitNames[kNumSplits] = {"train", "validation", "test"};

struct BuildPlan {
  std::unique_ptr<tokenizer::Tokenizer> tokenizer;
  std::optional<recordings::ArrayStream> arrays;  // if the tokenizer is one of arrays
  Discovery found;
  std::vector<Portion> portions;              // of the whole corpus
  size_t first_portion = 0, end_portion = 0;  // of this part
  Holdout holdout;
  Duplicates duplicates;                     // empty, or one list per portion
  std::optional<PositionalSplit> positions;  // instead of the holdout; like duplicates, from all records
  std::vector<std::string>
      portion_identities;  // over all that decides a portion's tokens and documents; empty: not our part
  std::string identity;    // over our portions: equal for the same build

  // Bytes of text of each token, by id; empty if all sources are text, or if the bytes are unknown.
  std::vector<uint32_t> id_text_bytes;
  // Bytes of the document's text, or of the text of its ids.
  int64_t text_bytes_of(const Document& document) const;

  std::string shard_identity(size_t split, size_t portion, int64_t bundle) const;
};

// "train-000012-0003.shard"
std::string shard_name(size_t split, size_t portion, int64_t bundle);
// The identity that a shard of that name must have; empty for a name that no shard of our part has.
std::string planned_identity(const BuildPlan& plan, const std::string& name);
// Whether a shard of that name belongs to another part.
bool is_of_another_part(const BuildPlan& plan, const std::string& name);

// Hashes the files of our part, or all files if every part depends on all. Throws user_error for invalid rules, and the
// errors of discover and find_holdout.
BuildPlan plan_build(const BuildOptions& options, std::unique_ptr<tokenizer::Tokenizer> tokenizer,
                     HashProgress& progress);

}  // namespace hearth::data
