// Splits by position, as Megatron and GPT-NeoX make them (`split: "969, 30, 1"`): the documents in their order,
// unshuffled, first those of "train", then "validation", then "test". Source: GPT-NeoX, megatron/data/data_utils.py.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "data/build/duplicates.h"
#include "data/build/units.h"
#include "data/shard/manifest.h"

namespace hearth::data {

// One to three shares, separated by commas or slashes, on any scale; in the spelling that manifests store: "969,30,1".
// Throws user_error.
std::string parse_split(std::string_view text);

// Where the splits of `documents` documents begin, and the end of the last. Each has its share of them, rounded half to
// even; what that is off by is taken from all borders (but none falls below 0, where GPT-NeoX would read documents of
// the end), so that small corpora may get no validation. `split` is as parse_split returns it.
std::array<int64_t, 4> split_borders(std::string_view split, int64_t documents);

// Which split each document belongs to.
class PositionalSplit {
 public:
  // Counts all documents that are kept: reads everything once, on several threads.
  PositionalSplit(const std::vector<SourceFile>& sources, const std::vector<Unit>& units, const BuildRules& rules,
                  const Duplicates& duplicates, int64_t threads);
  // The split of document `number` of the unit, counted from 0 over those that are kept.
  size_t split_of(size_t unit, int64_t number) const;

 private:
  std::vector<int64_t> first_document_;  // of each unit
  std::array<int64_t, 4> borders_;
};

}  // namespace hearth::data
