// SPDX-License-Identifier: Apache-2.0
// The "model" node of a tokenizer.json: vocabulary with merges or scores.
#pragma once

#include <string>
#include <string_view>
#include <unordered_map>

#include "tokenizer/formats/huggingface_file.h"
#include "tokenizer/formats/huggingface_node.h"

namespace hearth::tokenizer {

// The vocabulary's keys, as the file spells them, and their ids.
using VocabularyIndex = std::unordered_map<std::string, uint32_t>;

// Needs file.byte_level. For BPE it fills tokens, unreachable, merges, byte_tokens and ignore_merges. For Unigram it
// fills unigram, tokens, scores, unknown and byte_tokens, and for WordPiece tokens and word_piece. `json` is the whole
// file.
VocabularyIndex read_model(const Node& node, std::string_view json, HuggingFaceFile& file);

// For a Unigram model (huggingface_unigram.cpp).
VocabularyIndex read_unigram(const Node& node, std::string_view json, HuggingFaceFile& file);

}  // namespace hearth::tokenizer
