// SPDX-License-Identifier: Apache-2.0
// The first stage of training a tokenizer: the count of each piece in a corpus.
#pragma once

#include <atomic>
#include <functional>

#include "commands/progress_line.h"
#include "data/build/portion_reader.h"
#include "data/shard/manifest.h"
#include "data/source/discover.h"
#include "tokenizer/bpe/train.h"

namespace hearth::commands {

struct TrainingProgress {
  std::atomic<int64_t> bytes_done{0}, bytes_total{0};  // bytes of the sources, as stored on disk
  std::atomic<int64_t> items_done{0}, items_total{0};  // then: merges, or patches that are mapped

  // `items`: the text about them, such as "merges".
  std::string text(const char* items) const {
    const bool is_counted = items_total > 0;
    const auto done = static_cast<double>(is_counted ? items_done : bytes_done);
    const auto total = static_cast<double>(is_counted ? items_total : bytes_total);
    return progress_bar(is_counted ? items : "counting", total > 0 ? done / total : 0);
  }
};

// Adds a document's pieces. Throws user_error for a document of the wrong kind; `path` names its source.
using CountDocument =
    std::function<void(const data::Document& document, const std::string& path, tokenizer::PieceCounts& counts)>;

// Counts all documents that are not held out. The result does not depend on the number of threads. make_counter returns
// a new function for each portion of the corpus.
tokenizer::PieceCounts count_pieces(const data::Discovery& found, const data::BuildRules& rules, int64_t threads,
                                    const std::function<CountDocument()>& make_counter, TrainingProgress& progress);

}  // namespace hearth::commands
