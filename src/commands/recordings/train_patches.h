// SPDX-License-Identifier: Apache-2.0
// The part of `hearth tokenizer train` for patches of arrays.
#pragma once

#include <string>

#include "commands/counted_pieces.h"
#include "recordings/patch_file.h"

namespace hearth::commands {

// "1x15": neurons x bins. Throws user_error for any other text.
recordings::PatchShape parse_patch_shape(const std::string& text);

// Writes tokenizer.patches to `out` and prints how the patches were mapped.
void train_patch_tokenizer(const data::Discovery& found, const data::BuildRules& rules, recordings::PatchShape shape,
                           int64_t vocab_size, int64_t threads, const Path& out);

}  // namespace hearth::commands
