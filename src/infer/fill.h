// SPDX-License-Identifier: Apache-2.0
// `hearth generate --fill`: a model that was trained to predict hidden tokens completes a text with masks.
//
// The mask with the most certain token is filled first. Then the model computes the others again, until all are filled.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "data/batch/prompt.h"
#include "infer/generate.h"
#include "infer/loaded_model.h"

namespace hearth::infer {

struct Filling {
  std::string text;  // each mask, in the spelling of mask_text(), is one token
  SamplingOptions sampling{.temperature = 0};
  uint64_t seed = 0;
};

struct Filled {
  std::string text;
  std::vector<int32_t> ids;        // of the whole text as one document, with its BOS and EOS
  std::vector<int64_t> positions;  // positions of the masks in `ids`, in the order of filling
};

// The spelling of a mask: the tokenizer's mask token, or "[MASK]" if that has no text.
std::string mask_text(const LoadedModel& model);

// The tokens of a text with masks. Throws the errors of fill_masks.
data::MaskedPrompt masked_prompt(const LoadedModel& model, const std::string& text);

// Throws user_error for a model of another objective, a text without masks, or a text longer than training.seq_len.
Filled fill_masks(LoadedModel& model, const Filling& request);

}  // namespace hearth::infer
