// The "model" node of a tokenizer.json: vocabulary and merges.
#pragma once

#include <string>
#include <unordered_map>

#include "tokenizer/formats/huggingface_file.h"
#include "tokenizer/formats/huggingface_node.h"

namespace hearth::tokenizer {

// The vocabulary's keys, as the file spells them, and their ids.
using VocabularyIndex = std::unordered_map<std::string, uint32_t>;

// Reads `byte_level`; fills tokens, unreachable, merges, byte_tokens and ignore_merges.
VocabularyIndex read_model(const Node& node, HuggingFaceFile& file);

// {"type": "Replace", "pattern": {"String": FROM}, "content": TO}: a normalizer and a decoder.
NormalizerStep read_replace(const Node& node);

}  // namespace hearth::tokenizer
