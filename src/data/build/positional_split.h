// SPDX-License-Identifier: Apache-2.0
// Splits by position, as in Megatron and GPT-NeoX (`split: "969, 30, 1"`): the documents in their order, unshuffled,
// first those of "train", then "validation", then "test". Source: GPT-NeoX, megatron/data/data_utils.py.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "data/build/duplicates.h"
#include "data/build/portions.h"
#include "data/shard/manifest.h"

namespace hearth::data {

// One to three shares on any scale, separated by commas or slashes. Returns them as manifests store them: "969,30,1".
// Throws user_error.
std::string parse_split(std::string_view text);

// The first document of each split, and the end of the last. Each split has its share of `documents`, rounded half to
// even. The rounding's surplus is subtracted from all borders, so small corpora may get no validation. No border falls
// below 0, where GPT-NeoX would read documents from the end. `split` is as parse_split returns it.
std::array<int64_t, 4> split_borders(std::string_view split, int64_t documents);

// The split of each document.
class PositionalSplit {
 public:
  // Counts all kept documents: reads everything once, on several threads.
  PositionalSplit(const std::vector<SourceFile>& sources, const std::vector<Portion>& portions, const BuildRules& rules,
                  const Duplicates& duplicates, int64_t threads);
  // The split of the portion's kept document `number`, counted from 0.
  size_t split_of(size_t portion, int64_t number) const;

 private:
  std::vector<int64_t> first_document_;  // of each portion
  std::array<int64_t, 4> borders_;
};

}  // namespace hearth::data
