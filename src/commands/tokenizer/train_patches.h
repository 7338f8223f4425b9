// SPDX-License-Identifier: Apache-2.0
// The part of `hearth tokenizer train` for patches of arrays.
#pragma once

#include <string>

#include "commands/tokenizer/counted_pieces.h"
#include "tokenizer/arrays/patches.h"

namespace hearth::commands {

// "1x15": neurons x bins. Throws user_error for any other text.
tokenizer::PatchShape parse_patch_shape(const std::string& text);

// Writes tokenizer.patches to `out` and prints how the patches were mapped.
void train_patch_tokenizer(const data::Discovery& found, const data::BuildRules& rules, tokenizer::PatchShape shape,
                           int64_t vocab_size, int64_t threads, const Path& out);

}  // namespace hearth::commands
