// What training a tokenizer starts with: how often each piece occurs in a corpus.
#pragma once

#include <atomic>
#include <functional>

#include "data/build/records.h"
#include "data/shard/manifest.h"
#include "data/source/discover.h"
#include "tokenizer/bpe/train.h"

namespace hearth::commands {

struct TrainingProgress {
  std::atomic<int64_t> bytes_done{0}, bytes_total{0};  // of sources, as they lie on disk
  std::atomic<int64_t> merges_done{0}, merges_total{0};
};

// Adds a document's pieces. Throws user_error for one of the wrong kind; `path` names its source.
using CountDocument =
    std::function<void(const data::Document& document, const std::string& path, tokenizer::PieceCounts& counts)>;

// Counts all documents that are not held out; the result does not depend on the threads. make_counter gives each unit
// of the corpus a function of its own.
tokenizer::PieceCounts count_pieces(const data::Discovery& found, const data::BuildRules& rules, int64_t threads,
                                    const std::function<CountDocument()>& make_counter, TrainingProgress& progress);

}  // namespace hearth::commands
