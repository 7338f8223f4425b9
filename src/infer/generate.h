// SPDX-License-Identifier: Apache-2.0
// `hearth generate`: text from a checkpoint, shown token by token.
#pragma once

#include <cstdio>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "base/error.h"
#include "config/options.h"
#include "decode/sampling.h"
#include "infer/loaded_model.h"

namespace hearth::infer {

using decode::SamplingOptions;

struct Generation {
  std::string prompt;
  int64_t max_tokens = 256;
  SamplingOptions sampling{};
  uint64_t seed = 0;
  std::vector<std::string> stop{};  // strings that end the text
};

struct GenerationCounts {
  int64_t prompt_tokens = 0;     // including the document separator
  int64_t generated_tokens = 0;  // without EOS
  bool ended = false;            // by EOS
};

// Calls `show` with whole characters: first the prompt, then the generated text, without the stop string. The same
// model, request and machine give the same text. When the context fills the model's window, its newer half is kept.
GenerationCounts generate(LoadedModel& model, const Generation& request,
                          const std::function<void(std::string_view)>& show);

SamplingOptions sampling_of(const config::GenerateOptions& options);

// The command. The text goes to stdout, everything else to stderr.
ExitCode run_generate(const config::GenerateOptions& options);

}  // namespace hearth::infer
