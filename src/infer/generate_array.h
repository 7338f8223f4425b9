// `hearth generate` for a checkpoint of arrays of counts: continues a recording with more time bins.
#pragma once

#include <functional>
#include <span>
#include <string>

#include "data/formats/spike_array.h"
#include "infer/generate.h"
#include "report/raster.h"

namespace hearth::infer {

struct ArrayGeneration {
  data::SpikeArray prompt;  // its bins fill whole patches; may have no bins
  int64_t max_tokens = 256;
  SamplingOptions sampling{};
  uint64_t seed = 0;
};

// A recording: the model's context, and the true continuation.
struct ArrayPrompt {
  data::SpikeArray context;
  data::SpikeArray after;  // [neurons, bins]; no bins if the context is the whole recording
};

// Reads a .npy of uint8 [neurons, bins] as a prompt.
// `n_fixed` is the number of neurons: the first ones, repeated if the file has too few. 0: as in the file; below 0: the
// number of the checkpoint's data.
// `context_bins` is the number of bins in the context (0: all). If they do not fill whole patches, the first bins are
// dropped.
// `source` is where the path was given, for messages.
// Throws user_error if the path is no such file, has fewer bins than `context_bins`, or has a count without an id.
ArrayPrompt read_prompt_array(const LoadedModel& model, const std::string& path, int64_t context_bins = 0,
                              int64_t n_fixed = -1, const std::string& source = "--prompt");

report::Raster raster_of(const data::SpikeArray& array);

// Writes the files of --out and --picture; `whole` is the context with the generated bins.
void write_generated(const config::GenerateOptions& options, const ArrayPrompt& prompt, const report::Raster& whole);

// Calls `show` with the counts [neurons] of each generated time bin. Each column of patches begins with BOS, which is
// set as in training, followed by sampled ids of patches. The number of columns is the number that begin within
// `max_tokens` tokens. The same model, request and machine give the same counts.
GenerationCounts generate_array(LoadedModel& model, const ArrayGeneration& request,
                                const std::function<void(std::span<const uint8_t>)>& show);

}  // namespace hearth::infer
