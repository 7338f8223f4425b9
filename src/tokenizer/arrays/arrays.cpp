// SPDX-License-Identifier: Apache-2.0
#include "tokenizer/arrays/arrays.h"

#include "tokenizer/formats/no_encoder.h"

namespace hearth::tokenizer {

std::unique_ptr<Encoder> ArrayTokenizer::encoder(SpecialText) const {
  return std::make_unique<NoEncoder>(user_error(fmt::format("tokenizer \"{}\" has no tokens for text", name()),
                                                "it is for arrays of counts", "give a tokenizer for text"));
}

void ArrayTokenizer::decode(uint32_t id, std::string& text) const {
  check_id(id, fmt::format("tokenizer \"{}\" has", name()));
  if (id == bos()) {
    text += '\n';
    return;
  }
  char before = ' ';
  for (const uint8_t count : patch_of(id)) {
    text += fmt::format("{}{}", before, count);
    before = ',';
  }
}

}  // namespace hearth::tokenizer
