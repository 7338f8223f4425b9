// SPDX-License-Identifier: Apache-2.0
#include "tokenizer/formats/bytes.h"

#include "base/hash.h"

namespace hearth::tokenizer {

namespace {

class BytesEncoder final : public Encoder {
 public:
  void encode(std::string_view text, std::vector<uint32_t>& ids) override {
    const size_t begin = ids.size();
    ids.resize(begin + text.size());
    for (size_t i = 0; i < text.size(); ++i) ids[begin + i] = static_cast<uint8_t>(text[i]);
  }
};

}  // namespace

// BOS and EOS have no text, so kParse and kPlain are the same.
std::unique_ptr<Encoder> BytesTokenizer::encoder(SpecialText) const { return std::make_unique<BytesEncoder>(); }

void BytesTokenizer::decode(uint32_t id, std::string& text) const {
  check_id(id, "tokenizer \"bytes\" has");
  if (id < 256) text.push_back(static_cast<char>(id));
}

// There is no file, so the hash is of the rule in words. Stored in manifests: never change.
std::string BytesTokenizer::content_hash() const {
  return xxh3_128_hex("hearth tokenizer bytes: 256 bytes, bos 256, eos 257");
}

}  // namespace hearth::tokenizer
