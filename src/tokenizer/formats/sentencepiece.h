// SPDX-License-Identifier: Apache-2.0
// A SentencePiece .model, BPE or unigram, read and run by the SentencePiece library. Ids equal the library's.
//
// Each invalid UTF-8 byte becomes U+FFFD and is counted. Control pieces ("<s>") in a text are plain text, as in
// SentencePiece itself; kParse is refused.
#pragma once

#include <memory>
#include <string>

#include "tokenizer/formats/added_tokens.h"
#include "tokenizer/formats/file_tokenizer.h"
#include "tokenizer/formats/sentencepiece_model.h"

namespace hearth::tokenizer {

// Whether the content is a SentencePiece model, by the form of its first pieces.
bool looks_like_sentencepiece_file(std::string_view content);

class SentencePieceTokenizer final : public FileTokenizer {
 public:
  // Throws user_error as open_sentencepiece_model does, and for a model that is too small.
  SentencePieceTokenizer(std::string content, const std::string& origin);

  DocumentTokens file_tokens() const override { return {model_->bos(), model_->eos()}; }
  std::unique_ptr<Encoder> encoder(SpecialText special = SpecialText::kPlain) const override;
  size_t safe_cut(std::string_view text, size_t) const override { return text.size(); }
  void decode(uint32_t id, std::string& text) const override;
  std::string decode_all(std::span<const uint32_t> ids) const override;
  int64_t vocab_size() const override { return static_cast<int64_t>(decoded_.size()); }
  std::vector<SpecialToken> special_tokens() const override;
  std::string kind() const override { return "sentencepiece"; }
  std::string name() const override { return "tokenizer.model"; }

 private:
  friend class SentencePieceEncoder;

  std::unique_ptr<SentencePieceModel> model_;
  std::vector<std::string> decoded_;  // [vocab_size]
  AddedTokens control_pieces_;        // for counting them
};

}  // namespace hearth::tokenizer
