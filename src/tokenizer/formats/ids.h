// SPDX-License-Identifier: Apache-2.0
// The tokenizer for data that comes as ids whose text is unknown: `--vocab-size N`. It does not encode, and shows ids
// as numbers.
#pragma once

#include "tokenizer/tokenizer.h"

namespace hearth::tokenizer {

class IdsTokenizer final : public Tokenizer {
 public:
  explicit IdsTokenizer(int64_t vocab_size) : vocab_size_(vocab_size) {}

  // The encoder throws user_error for a text that is not empty.
  std::unique_ptr<Encoder> encoder(SpecialText special) const override;
  size_t safe_cut(std::string_view, size_t limit) const override { return limit; }
  void decode(uint32_t id, std::string& text) const override;  // " 123", for display
  int64_t vocab_size() const override { return vocab_size_; }
  std::optional<uint32_t> bos() const override { return {}; }
  std::optional<uint32_t> eos() const override { return {}; }
  bool has_text() const override { return false; }
  std::string kind() const override { return "ids"; }
  std::string name() const override;  // "ids:50432"
  std::string content_hash() const override;

 private:
  int64_t vocab_size_;
};

// The number in "ids:50432"; nullopt for any other text.
std::optional<int64_t> parse_ids_name(std::string_view name);

}  // namespace hearth::tokenizer
