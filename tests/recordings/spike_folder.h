// SPDX-License-Identifier: Apache-2.0
// Arrays of spike counts on disk.
#pragma once

#include "data/corpus_folder.h"
#include "formats/npy.h"

namespace hearth::data {

inline BuildRules spikes(int64_t n_fixed = 0) {
  BuildRules rules;
  rules.tokenizer = "spikes";
  rules.n_fixed = n_fixed;
  return rules;
}

// counts: [neurons, bins].
inline void write_array(const Path& path, int64_t neurons, int64_t bins, std::string_view counts) {
  const int64_t shape[] = {neurons, bins};
  write_text(path, formats::npy_header("|u1", shape) + std::string(counts));
}

}  // namespace hearth::data
