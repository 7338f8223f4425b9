#include "tokenizer/tokenizer.h"

namespace hearth::tokenizer {

void Tokenizer::encode(std::string_view text, std::vector<uint32_t>& ids) const { encoder()->encode(text, ids); }

std::string Tokenizer::decode_all(std::span<const uint32_t> ids) const {
  std::string text;
  for (const uint32_t id : ids) decode(id, text);
  return text;
}

}  // namespace hearth::tokenizer
