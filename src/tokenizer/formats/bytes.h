// SPDX-License-Identifier: Apache-2.0
// The tokenizer of bytes. It needs no file: id = byte, then BOS and EOS.
#pragma once

#include "tokenizer/tokenizer.h"

namespace hearth::tokenizer {

class BytesTokenizer final : public Tokenizer {
 public:
  static constexpr uint32_t kBos = 256, kEos = 257;  // stored in shards: never change
  static constexpr int64_t kVocabSize = 258;

  std::unique_ptr<Encoder> encoder(SpecialText special) const override;
  size_t safe_cut(std::string_view, size_t limit) const override { return limit; }
  void decode(uint32_t id, std::string& text) const override;
  int64_t vocab_size() const override { return kVocabSize; }
  std::optional<uint32_t> bos() const override { return kBos; }
  std::optional<uint32_t> eos() const override { return kEos; }
  std::string kind() const override { return "bytes"; }
  std::string name() const override { return "bytes"; }
  std::string content_hash() const override;
};

}  // namespace hearth::tokenizer
