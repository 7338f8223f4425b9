// SPDX-License-Identifier: Apache-2.0
// The tokens of a prompt: a text that a model continues, or whose masks it fills in. A prompt begins a document.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "tokenizer/tokenizer.h"

namespace hearth::data {

// The tokens before a document's first token in training. `document_bos`: whether BOS begins each document.
std::vector<int32_t> document_start(const tokenizer::Tokenizer& tokenizer, bool document_bos);

// A text to continue, with its document's start. Empty only if the text is empty and the tokenizer has no BOS and no
// EOS.
std::vector<int32_t> prompt_tokens(const tokenizer::Tokenizer& tokenizer, bool document_bos, std::string_view text);

// The spelling of a mask: the mask token's text, or "[MASK]" if it has none.
std::string mask_text(const tokenizer::Tokenizer& tokenizer, int32_t mask_id);

// A whole document with masks to fill in.
struct MaskedPrompt {
  std::vector<int32_t> ids{};   // with the document's start, and EOS if there is such a token
  int64_t start = 0;            // where the text begins
  std::vector<int64_t> open{};  // the masks' positions, ascending

  // The text of the ids.
  std::string text(const tokenizer::Tokenizer& tokenizer) const;
};

// Each mask in `text`, in the spelling of mask_text() or as "[MASK]", becomes one token.
MaskedPrompt masked_prompt(const tokenizer::Tokenizer& tokenizer, bool document_bos, int32_t mask_id, std::string text);

}  // namespace hearth::data
