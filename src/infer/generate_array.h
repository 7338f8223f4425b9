// SPDX-License-Identifier: Apache-2.0
// `hearth generate` for a checkpoint of arrays of counts: continues a recording with more time bins.
#pragma once

#include <functional>
#include <span>
#include <string>

#include "infer/generate.h"
#include "recordings/prompt.h"

namespace hearth::infer {

struct ArrayGeneration {
  recordings::SpikeArray prompt;  // its bins fill whole patches; may have no bins
  int64_t max_tokens = 256;
  SamplingOptions sampling{};
  uint64_t seed = 0;
};

// Reads a .npy as a prompt: recordings::read_array_prompt, with its errors. `n_fixed` is the number of neurons; below
// 0: as in the checkpoint's data. `source` says where the user gave the path, for messages.
recordings::ArrayPrompt read_prompt_array(const LoadedModel& model, const std::string& path, int64_t context_bins = 0,
                                          int64_t n_fixed = -1, const std::string& source = "--prompt");

// Calls `show` with the counts [neurons] of each generated time bin. Each column of patches begins with BOS, which is
// set as in training, followed by sampled ids of patches. A column is generated if it begins within the first
// `max_tokens` tokens. The same model, request and machine give the same counts.
GenerationCounts generate_array(LoadedModel& model, const ArrayGeneration& request,
                                const std::function<void(std::span<const uint8_t>)>& show);

}  // namespace hearth::infer
