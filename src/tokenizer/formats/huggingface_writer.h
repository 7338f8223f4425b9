// SPDX-License-Identifier: Apache-2.0
// Writes a tokenizer.json of a byte-level BPE for `tokenizers` and this program.
#pragma once

#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "tokenizer/bpe/bpe.h"
#include "tokenizer/tokenizer.h"

namespace hearth::tokenizer {

struct HuggingFaceBpe {
  std::vector<std::string> spelled;      // by id: each token as the file spells it (unicode/byte_alphabet.h)
  std::vector<SpecialToken> special;     // in order of id; ids past `spelled` follow it without a gap
  std::string_view pattern;              // the pattern that cuts the pieces
  std::span<const Merge> merges;         // in order of rank
  bool ignore_merges = false;            // a piece that equals a token becomes that token
  std::optional<SpecialToken> before{};  // the template puts it before a text
};
std::string format_huggingface_file(const HuggingFaceBpe& bpe);

}  // namespace hearth::tokenizer
