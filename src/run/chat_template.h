// The chat template of the model that a training starts from. Its checkpoints keep it, so that an export has it.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "checkpoint/load.h"

namespace hearth::run {

// As tokenizer/formats/chat_template.h has it; empty: no template. The template of another tokenizer than the data's
// is left out, with a note. `tokenizer_file`: the content of the data's tokenizer file.
std::string chat_template_of(const checkpoint::Reader& reader, const std::string& tokenizer_hash,
                             std::string_view tokenizer_file, std::vector<std::string>& notes);

}  // namespace hearth::run
