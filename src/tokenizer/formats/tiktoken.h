// SPDX-License-Identifier: Apache-2.0
// Llama-3's tokenizer.model: each line has a token's bytes in base64 and its rank, as in tiktoken. The file has no
// pattern and no special tokens, so this code knows Llama-3's. Files of other models are refused, because their
// patterns are unknown. Use their tokenizer.json, which has everything.
//
// By default ids equal those of tiktoken with Meta's pattern and Meta's cuts (meta_cuts.h). Without the cuts ids equal
// those of Hugging Face's tokenizer.json of the same model.
#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "tokenizer/bpe/bpe.h"
#include "tokenizer/formats/added_tokens.h"
#include "tokenizer/formats/file_tokenizer.h"
#include "tokenizer/pretokenizer/pretokenizer.h"

namespace hearth::tokenizer {

// Whether the content is lines of base64 and rank, by its first line.
bool looks_like_tiktoken_file(std::string_view content);
// The tokens in order of rank. Throws damaged() for a wrong line of `origin`, which it names, or for a missing rank.
std::vector<std::string> parse_tiktoken_file(std::string_view content, const std::string& origin);

class TiktokenTokenizer final : public FileTokenizer {
 public:
  static constexpr size_t kLlama3Tokens = 128'000, kSpecialTokens = 256;

  // Throws as parse_tiktoken_file does, and user_error if the number of tokens is not Llama-3's.
  TiktokenTokenizer(std::string content, const std::string& origin, bool meta_cuts = true);

  // <|begin_of_text|> and <|end_of_text|>, which are set already.
  DocumentTokens file_tokens() const override { return {special_[0].id, special_[1].id}; }
  std::unique_ptr<Encoder> encoder(SpecialText special = SpecialText::kPlain) const override;
  std::unique_ptr<Encoder> encoder_without_cache() const override;
  size_t safe_cut(std::string_view text, size_t limit) const override;
  void decode(uint32_t id, std::string& text) const override;
  int64_t vocab_size() const override { return kLlama3Tokens + kSpecialTokens; }
  bool adds_bos() const override { return true; }  // as in the tokenizer.json of the same model
  std::vector<SpecialToken> special_tokens() const override { return special_; }
  std::string kind() const override { return "tiktoken"; }
  std::string name() const override { return "tokenizer.model"; }
  std::string content_hash() const override;

  // The same vocabulary, pattern, special tokens and BOS as a tokenizer.json. Its ids are those without Meta's cuts.
  std::string as_huggingface_file() const;

 private:
  friend class TiktokenEncoder;

  bool meta_cuts_;
  Bpe bpe_;
  Pretokenizer cuts_;
  std::vector<SpecialToken> special_;
  AddedTokens special_texts_;
};

}  // namespace hearth::tokenizer
