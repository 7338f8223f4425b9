// What a build will write, decided from the text before anything is written.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "data/build.h"
#include "data/corpus.h"
#include "tokenizer/tokenizer.h"

namespace hearth::data {

struct PlannedShard {
  std::string file;      // name in the dataset's folder
  std::string identity;  // hash over all that decides its bytes
  std::vector<const Document*> documents;
};

struct PlannedSplit {
  std::string name;
  std::vector<const Document*> documents;
  std::vector<PlannedShard> shards;
};

struct BuildPlan {
  Corpus corpus;
  std::unique_ptr<tokenizer::Tokenizer> tokenizer;
  std::string identity;  // of the dataset: the tokens and their order, whatever the shards' size and the files' places
  std::vector<PlannedSplit> splits;
};

// Reads all text once. Throws user_error for rules that make no sense, and what find_corpus throws.
BuildPlan plan_build(const BuildOptions& options, CorpusProgress& progress);

}  // namespace hearth::data
