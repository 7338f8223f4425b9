// SPDX-License-Identifier: Apache-2.0
#include "tokenizer/tokenizer.h"

#include "base/error.h"

namespace hearth::tokenizer {

void Tokenizer::encode(std::string_view text, std::vector<uint32_t>& ids) const { encoder()->encode(text, ids); }

std::string Tokenizer::decode_all(std::span<const uint32_t> ids) const {
  std::string text;
  for (const uint32_t id : ids) decode(id, text);
  return text;
}

void Tokenizer::check_id(uint32_t id, std::string_view who_has) const {
  if (id >= vocab_size())
    throw user_error(fmt::format("token {} is outside the vocabulary", id),
                     fmt::format("{} {} tokens", who_has, vocab_size()));
}

}  // namespace hearth::tokenizer
