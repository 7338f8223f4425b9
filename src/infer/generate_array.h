// `hearth generate` where the checkpoint is one of arrays of counts: time bins that follow those of a recording.
#pragma once

#include <functional>
#include <span>
#include <string>

#include "data/formats/spike_array.h"
#include "infer/generate.h"
#include "report/raster.h"

namespace hearth::infer {

struct ArrayGeneration {
  data::SpikeArray prompt;  // its bins fill whole patches; there may be none
  int64_t max_tokens = 256;
  SamplingOptions sampling{};
  uint64_t seed = 0;
};

// A recording: what the model sees of it, and what came next.
struct ArrayPrompt {
  data::SpikeArray context;
  data::SpikeArray after;  // [neurons, bins]; empty where the context is all of it
};

// A .npy of uint8 [neurons, bins] as a prompt: its first n_fixed neurons, or all of them again and again until there
// are as many (0: those that it has; below 0: what the checkpoint says its data gave each array); its first
// `context_bins` bins as context (0: all): of a tokenizer of patches the first bins of those are left out, where they
// do not fill one. Throws user_error for a path that is no such file, for fewer bins than that, and for counts that the
// tokenizer has no id for.
ArrayPrompt read_prompt_array(const LoadedModel& model, const std::string& path, int64_t context_bins = 0,
                              int64_t n_fixed = -1);

report::Raster raster_of(const data::SpikeArray& array);

// Before anything is generated: makes the folder that `file` of --out or --picture will lie in, and throws where it
// could not be written. Empty: nothing is asked for.
void prepare_output(const char* option, const Path& file);

// What --out and --picture ask for; `whole` is the context and what was generated after it.
void write_generated(const config::GenerateOptions& options, const ArrayPrompt& prompt, const report::Raster& whole);

// Calls `show` with the counts [neurons] of one time bin after the other, those of the prompt left out. As many columns
// of patches as `max_tokens` begin: each is BOS, which is set and not drawn, as it stands before every column in
// training, and ids of patches, which are drawn. The same model, request and machine give the same counts.
GenerationCounts generate_array(LoadedModel& model, const ArrayGeneration& request,
                                const std::function<void(std::span<const uint8_t>)>& show);

}  // namespace hearth::infer
