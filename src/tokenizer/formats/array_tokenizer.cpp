// SPDX-License-Identifier: Apache-2.0
#include "tokenizer/formats/array_tokenizer.h"

#include "tokenizer/formats/no_encoder.h"

namespace hearth::tokenizer {

std::unique_ptr<Encoder> ArrayTokenizer::encoder(SpecialText) const {
  return std::make_unique<NoEncoder>(user_error(fmt::format("tokenizer \"{}\" has no tokens for text", name()),
                                                "it is for arrays of counts", "give a tokenizer for text"));
}

void ArrayTokenizer::decode(uint32_t id, std::string& text) const {
  check_id(id, fmt::format("tokenizer \"{}\" has", name()));
  text += recordings::text_of_id(*vocabulary_, id);
}

}  // namespace hearth::tokenizer
