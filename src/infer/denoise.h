// SPDX-License-Identifier: Apache-2.0
// `hearth generate` for a model of masked_diffusion: the text begins as masks, and each step fills in those whose
// tokens are most certain. The others stay masks and are predicted again ("low-confidence remasking"). With blocks,
// all masks of a block are filled before the next block begins. Source: LLaDA, arXiv 2502.09992, section 2.4 and
// algorithm 5.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "infer/generate.h"
#include "infer/loaded_model.h"

namespace hearth::infer {

struct DenoisingRules {
  int64_t max_tokens = 128;    // masks after the prompt
  int64_t steps = 128;         // forward passes; each block has as many
  int64_t block_length = 128;  // max_tokens: one block
  SamplingOptions sampling{};
};

// The rules of --max-tokens, --steps and --block-length. Throws user_error if they do not divide.
DenoisingRules denoising_rules(const config::GenerateOptions& options);

// Throws user_error if prompt and text are longer than the model's window.
void check_fits(const LoadedModel& model, const std::vector<int32_t>& prompt, const DenoisingRules& rules);

// The tokens after `prompt`, max_tokens of them, with EOS and what is after it. Tokens of a step whose certainties are
// equal are filled from the left. The same model, prompt, rules and seed give the same tokens. Throws user_error if
// prompt and text are longer than the model's window.
std::vector<int32_t> denoise(LoadedModel& model, const std::vector<int32_t>& prompt, const DenoisingRules& rules,
                             uint64_t seed);

// A text up to EOS, or to the first string of `stop`. `counts` is filled.
struct DenoisedText {
  std::string text;
  GenerationCounts counts;
  std::string stop;  // "eos", "stop" or "length"
};
DenoisedText denoised_text(LoadedModel& model, const std::vector<int32_t>& prompt, const DenoisingRules& rules,
                           const std::vector<std::string>& stop, uint64_t seed);

}  // namespace hearth::infer
