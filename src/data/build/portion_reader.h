// SPDX-License-Identifier: Apache-2.0
// The documents of a portion, in order: its sources' records after the rules for bad and empty ones.
#pragma once

#include <memory>
#include <string_view>
#include <vector>

#include "base/hash.h"
#include "data/build/portions.h"
#include "data/shard/manifest.h"
#include "data/source/source.h"

namespace hearth::data {

struct Document {
  size_t source = 0;  // index
  int64_t position = 0;
  std::string_view data;  // its text, its ids in memory (u32), or its counts
  bool is_ids = false;
  std::shared_ptr<const recordings::SpikeArray> array;  // null: text or ids
  WeightRuns weights;                                   // of its bytes or ids as labels; empty: each is 1
  Hash128 hash;                                         // of `data`; of an array also of its shape
  Hash128 content;                                      // of `hash` and the weights; equal for equal documents
  std::shared_ptr<const void> owner;                    // as in Record
};

class PortionReader {
 public:
  PortionReader(const std::vector<SourceFile>& sources, const Portion& portion, const BuildRules& rules);

  // False at the end. `document` has views like Record. Throws for a bad record under OnError::kStop (user_error or
  // damaged(), with file and record), and for a file that changed since it was found.
  bool next(Document& document);

  const RecordCounts& counts() const { return counts_; }  // so far
  int64_t bytes_read() const;                             // of the portion, on disk

 private:
  bool next_record();  // false: the piece has no more records
  bool judge();        // whether record_ becomes a document
  void check_array();  // finds the problem of record_.array
  [[noreturn]] void stop() const;

  const std::vector<SourceFile>& sources_;
  const Portion& portion_;
  const BuildRules& rules_;
  int largest_count_;  // of an array
  RecordCounts counts_;
  size_t piece_ = 0;
  std::unique_ptr<SourceReader> reader_;
  Record record_;
  int64_t bytes_before_ = 0;  // of the finished pieces
};

}  // namespace hearth::data
