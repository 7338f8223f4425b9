// `hearth generate`: text from a checkpoint, as it comes.
#pragma once

#include <cstdio>
#include <functional>
#include <string>
#include <string_view>

#include "base/error.h"
#include "config/options.h"
#include "infer/loaded_model.h"
#include "infer/sampling.h"

namespace hearth::infer {

struct Generation {
  std::string prompt;
  int64_t max_tokens = 256;
  SamplingOptions sampling{};
  uint64_t seed = 0;
};

struct GenerationCounts {
  int64_t prompt_tokens = 0;     // the document separator included
  int64_t generated_tokens = 0;  // EOS not included
  bool ended = false;            // by EOS
};

// Calls `show` with text, never with half a character: first the prompt, then what the model makes of it. The same
// model, request and machine give the same text. When the model's window is full, the newer half of it is kept as
// context.
GenerationCounts generate(LoadedModel& model, const Generation& request,
                          const std::function<void(std::string_view)>& show);

// The command. The text goes to stdout, everything else to stderr.
ExitCode run_generate(const config::GenerateOptions& options);

}  // namespace hearth::infer
