#include "tokenizer/bytes.h"

#include "base/error.h"
#include "base/hash.h"

namespace hearth::tokenizer {

void BytesTokenizer::encode(std::string_view text, std::vector<uint32_t>& ids) const {
  const size_t begin = ids.size();
  ids.resize(begin + text.size());
  for (size_t i = 0; i < text.size(); ++i) ids[begin + i] = static_cast<uint8_t>(text[i]);
}

void BytesTokenizer::decode(uint32_t id, std::string& text) const {
  if (id >= kVocabSize)
    throw user_error(fmt::format("token {} is outside the vocabulary", id),
                     fmt::format("tokenizer \"bytes\" has {} tokens", kVocabSize));
  if (id < 256) text.push_back(static_cast<char>(id));
}

// There is no file to hash: the rule itself, in words, stands for it. Stored in manifests: never change.
std::string BytesTokenizer::content_hash() const {
  return xxh3_128_hex("hearth tokenizer bytes: 256 bytes, bos 256, eos 257");
}

}  // namespace hearth::tokenizer
