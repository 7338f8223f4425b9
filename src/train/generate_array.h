// `hearth generate` where the checkpoint is one of arrays of counts: time bins that follow those of a recording.
#pragma once

#include <functional>
#include <span>
#include <string>

#include "data/spike_array.h"
#include "train/generate.h"

namespace hearth::train {

struct ArrayGeneration {
  data::SpikeArray prompt;  // its bins fill whole patches; there may be none
  int64_t max_tokens = 256;
  SamplingOptions sampling{};
  uint64_t seed = 0;
};

// A .npy of uint8 [neurons, bins] as a prompt: of a tokenizer of patches the first bins are left out, where they do not
// fill one. Throws user_error for a path that is no such file, and for counts that the tokenizer has no id for.
data::SpikeArray read_prompt_array(const LoadedModel& model, const std::string& path);

// Calls `show` with the counts [neurons] of one time bin after the other, those of the prompt left out. As many columns
// of patches as `max_tokens` begin: each is BOS, which is set and not drawn, as it stands before every column in
// training, and ids of patches, which are drawn. The same model, request and machine give the same counts.
GenerationCounts generate_array(LoadedModel& model, const ArrayGeneration& request,
                                const std::function<void(std::span<const uint8_t>)>& show);

}  // namespace hearth::train
