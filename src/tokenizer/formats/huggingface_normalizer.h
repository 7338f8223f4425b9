// SPDX-License-Identifier: Apache-2.0
// The "normalizer" node of a tokenizer.json.
#pragma once

#include <vector>

#include "tokenizer/formats/huggingface_node.h"
#include "tokenizer/normalizer/normalizer.h"

namespace hearth::tokenizer {

// The steps of the node, in order. Empty for a null node. Throws user_error for a node that Hearth does not support.
std::vector<NormalizerStep> read_normalizer(const Node& node);

// Reads {"type": "Replace", "pattern": {"String": FROM}, "content": TO}, which normalizers and decoders have. The step
// is kReplace, or kReplaceRegex for {"Regex": FROM}.
NormalizerStep read_replace(const Node& node);

}  // namespace hearth::tokenizer
