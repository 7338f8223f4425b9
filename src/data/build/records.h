// The documents of a unit, in order: its sources' records after the rules for bad and empty ones.
#pragma once

#include <memory>
#include <string_view>
#include <vector>

#include "base/hash.h"
#include "data/build/units.h"
#include "data/shard/manifest.h"
#include "data/source/source.h"

namespace hearth::data {

struct Document {
  size_t source = 0;  // index
  int64_t position = 0;
  std::string_view data;  // its text, its ids as they lie in memory (u32), or its counts
  bool is_ids = false;
  std::shared_ptr<const SpikeArray> array;  // null: it is text or ids
  WeightRuns weights;                       // of its bytes or ids as labels; empty: each is 1
  Hash128 hash;                             // of `data`; of an array also of its shape
  Hash128 content;                          // of that and the weights: what two equal documents have in common
  std::shared_ptr<const void> owner;        // as Record's
};

class UnitRecords {
 public:
  UnitRecords(const std::vector<SourceFile>& sources, const Unit& unit, const BuildRules& rules);

  // False at the end. `document` holds views as Record does. Throws for a bad record under OnError::kStop (user_error
  // or damaged(), naming file and record), and for a file that changed since it was found.
  bool next(Document& document);

  const RecordCounts& counts() const { return counts_; }  // up to here
  int64_t bytes_read() const;                             // of the unit, on disk

 private:
  bool next_record();  // false: the piece is at its end
  bool judge();        // whether record_ becomes a document
  void check_array();  // finds what is wrong with record_.array
  [[noreturn]] void stop() const;

  const std::vector<SourceFile>& sources_;
  const Unit& unit_;
  const BuildRules& rules_;
  int largest_count_;  // of an array
  RecordCounts counts_;
  size_t piece_ = 0;
  std::unique_ptr<SourceReader> reader_;
  Record record_;
  int64_t bytes_before_ = 0;  // of the pieces that are done
};

}  // namespace hearth::data
