// `hearth generate --fill`: a text with masks in it, completed by a model that was trained to predict hidden tokens.
//
// The mask whose token the model is most certain of is filled first; then the model looks again, until none is left.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "infer/generate.h"
#include "infer/loaded_model.h"

namespace hearth::infer {

struct Filling {
  std::string text;  // each mask, spelled as mask_text() says, stands for one token
  SamplingOptions sampling{.temperature = 0};
  uint64_t seed = 0;
};

struct Filled {
  std::string text;
  std::vector<uint32_t> ids;       // of the whole text, as a document of its own: what stands around documents, too
  std::vector<int64_t> positions;  // of the masks in it, in the order in which they were filled
};

// How a mask is written: as the tokenizer spells the mask token, or "[MASK]" where it has no text for it.
std::string mask_text(const LoadedModel& model);

// Throws user_error for a model of another objective, a text without masks, and one longer than training.seq_len.
Filled fill_masks(LoadedModel& model, const Filling& request);

}  // namespace hearth::infer
