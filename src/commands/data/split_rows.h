// SPDX-License-Identifier: Apache-2.0
// A line for each split of a dataset that was made: documents or arrays, tokens, bytes of text, shards.
#pragma once

#include <fmt/format.h>

#include "base/quantity.h"
#include "data/shard/manifest.h"
#include "recordings/vocabulary.h"

namespace hearth::commands {

inline void print_split_rows(const data::DatasetManifest& manifest) {
  const bool arrays = recordings::is_name_of_arrays(manifest.rules.tokenizer);
  const char* many = arrays ? "arrays" : "documents";
  const char* one = arrays ? "array " : "document ";
  for (const data::SplitEntry& split : manifest.splits)
    fmt::print("{:<10} {:>9} {} {:>14} tokens{} {:>5} {}\n", split.name, split.documents,
               split.documents == 1 ? one : many, split.tokens,
               split.text_bytes > 0 ? fmt::format(" {:>12} of text", format_bytes(split.text_bytes)) : "",
               split.shards.size(), split.shards.size() == 1 ? "shard" : "shards");
}

}  // namespace hearth::commands
