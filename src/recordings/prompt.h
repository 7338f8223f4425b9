// SPDX-License-Identifier: Apache-2.0
// Turns a recording that a model continues into tokens, and tokens back into time bins.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "recordings/spike_array.h"
#include "recordings/vocabulary.h"

namespace hearth::recordings {

// The part that the model reads, and the true continuation.
struct ArrayPrompt {
  SpikeArray context;  // its bins fill whole patches; may have no bins
  SpikeArray after;    // no bins if the context is the whole recording
};

struct ArrayPromptOptions {
  int64_t context_bins = 0;  // 0: all. If they do not fill whole patches, the first bins are dropped
  int64_t neurons = 0;       // takes the first neurons, repeated if the file has too few; 0: all of the file's
  // For messages: where the path and the number of bins were given, and what continues recordings.
  std::string source, context_source, why;
};

// Reads a .npy of uint8 [neurons, bins]. Throws user_error if the path is no such file, has fewer bins than
// `context_bins`, or has a count without an id.
ArrayPrompt read_array_prompt(const ArrayVocabulary& vocabulary, const std::string& path,
                              const ArrayPromptOptions& options);

// The columns of the context, and the BOS of the first column after it.
std::vector<int32_t> array_prompt_tokens(const ArrayVocabulary& vocabulary, const SpikeArray& context);

// Tokens of a column of patches of this many neurons, BOS included.
int64_t column_tokens(const ArrayVocabulary& vocabulary, int64_t neurons);

// The number of ids with a patch. They begin at 0 and end at BOS or earlier.
int64_t num_patch_ids(const ArrayVocabulary& vocabulary);

// The time bins of a column of patches, [bins, neurons].
std::vector<std::vector<uint8_t>> bins_of_column(const ArrayVocabulary& vocabulary, const std::vector<uint32_t>& ids,
                                                 int64_t neurons);

}  // namespace hearth::recordings
