// SPDX-License-Identifier: Apache-2.0
// A Hugging Face tokenizer.json: byte-level BPE (GPT-2, GPT-NeoX, Llama-3, Qwen, DeepSeek), BPE over characters with
// byte fallback (Llama-2, Mistral, Gemma), Unigram (T5, ALBERT, XLM-R, Pegasus), and WordPiece (BERT, NeoBERT). Ids
// equal those of the library `tokenizers`, without its template's tokens.
//
//   text -> added tokens cut out -> normalizer -> normalized added tokens cut out -> pre_tokenizer -> model
//
// `tokenizers` refuses invalid UTF-8. Here byte-level BPE keeps the bytes if each of the 256 has a token. The other
// kinds replace each invalid byte by U+FFFD and count it.
#pragma once

#include <memory>
#include <string>
#include <unordered_map>
#include <vector>

#include "tokenizer/bpe/bpe.h"
#include "tokenizer/bpe/character_bpe.h"
#include "tokenizer/formats/added_tokens.h"
#include "tokenizer/formats/file_tokenizer.h"
#include "tokenizer/formats/huggingface_file.h"
#include "tokenizer/normalizer/normalizer.h"
#include "tokenizer/pretokenizer/pretokenizer.h"
#include "tokenizer/unigram/unigram.h"
#include "tokenizer/wordpiece/wordpiece.h"

namespace hearth::tokenizer {

// Whether the content may be a tokenizer.json: its first character is "{". Reading it may still fail.
bool looks_like_huggingface_file(std::string_view content);

class HuggingFaceTokenizer final : public FileTokenizer {
 public:
  // Throws user_error as parse_huggingface_file does. `origin` names the file.
  HuggingFaceTokenizer(std::string content, const std::string& origin);

  DocumentTokens file_tokens() const override { return {file_.before, file_.after}; }  // the template's
  std::unique_ptr<Encoder> encoder(SpecialText special = SpecialText::kPlain) const override;
  std::unique_ptr<Encoder> encoder_without_cache() const override;
  size_t safe_cut(std::string_view text, size_t limit) const override;
  void decode(uint32_t id, std::string& text) const override;
  std::string decode_all(std::span<const uint32_t> ids) const override;
  int64_t vocab_size() const override { return static_cast<int64_t>(decoded_.size()); }
  bool adds_bos() const override { return file_.before.has_value(); }
  std::vector<SpecialToken> special_tokens() const override;
  std::string kind() const override { return "huggingface"; }
  std::string name() const override { return "tokenizer.json"; }

 private:
  friend class HuggingFaceEncoder;

  bool has_normalized_token(std::string_view text, size_t limit) const;
  void make_model();
  void make_added_tokens();
  void make_decoded();
  size_t model_size() const;
  std::string_view model_token(uint32_t id) const;
  // The text of a token that is neither an added token nor a byte token.
  std::string decode_text(std::string text, bool is_first) const;

  HuggingFaceFile file_;  // without tokens, merges and scores, which moved to the model
  // One of these: bytes with bpe_ alone, characters with bpe_ and characters_, unigram_, or words_.
  std::unique_ptr<Bpe> bpe_;
  std::unique_ptr<CharacterVocabulary> characters_;
  std::unique_ptr<UnigramVocabulary> unigram_;
  std::unique_ptr<WordPieceVocabulary> words_;
  std::unique_ptr<Normalizer> normalizer_;
  std::vector<Pretokenizer> cuts_;  // for each stage of file_.pretokenizer; at least one
  AddedTokens raw_tokens_, normalized_tokens_;
  std::vector<std::string> decoded_;                 // [vocab_size]
  std::unordered_map<uint32_t, std::string> first_;  // texts of tokens that differ at the start of a sequence
  std::vector<bool> is_special_;                     // [vocab_size]; such a token has no text
};

}  // namespace hearth::tokenizer
