// A Hugging Face tokenizer.json: byte-level BPE (GPT-2, GPT-NeoX, Llama-3, Qwen, DeepSeek) and BPE over characters with
// byte fallback (Llama-2, Mistral, Gemma). Ids equal those of the library `tokenizers`, without its template's tokens.
//
//   text -> added tokens cut out -> normalizer -> normalized added tokens cut out -> pre_tokenizer -> BPE
//
// Invalid UTF-8, which `tokenizers` refuses: byte-level keeps the bytes, byte fallback replaces each by U+FFFD.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "tokenizer/bpe/bpe.h"
#include "tokenizer/bpe/character_bpe.h"
#include "tokenizer/formats/added_tokens.h"
#include "tokenizer/formats/huggingface_file.h"
#include "tokenizer/pretokenizer/pretokenizer.h"
#include "tokenizer/tokenizer.h"

namespace hearth::tokenizer {

// Whether the content may be a tokenizer.json: its first character is "{". Reading it may still fail.
bool looks_like_huggingface_file(std::string_view content);

class HuggingFaceTokenizer final : public Tokenizer {
 public:
  // Throws user_error as parse_huggingface_file does. `origin` names the file.
  HuggingFaceTokenizer(std::string content, const std::string& origin);

  // The template's tokens before and after a text.
  DocumentTokens template_tokens() const { return {file_.before, file_.after}; }
  // Call this before threads share the tokenizer.
  void set_document_tokens(DocumentTokens tokens) { document_tokens_ = tokens; }

  using Tokenizer::encode;
  std::unique_ptr<Encoder> encoder(SpecialText special = SpecialText::kPlain) const override;
  std::unique_ptr<Encoder> encoder_without_cache() const override;
  size_t safe_cut(std::string_view text, size_t limit) const override;
  void decode(uint32_t id, std::string& text) const override;
  std::string decode_all(std::span<const uint32_t> ids) const override;
  int64_t vocab_size() const override { return static_cast<int64_t>(decoded_.size()); }
  std::optional<uint32_t> bos() const override { return document_tokens_.bos; }
  std::optional<uint32_t> eos() const override { return document_tokens_.eos; }
  bool adds_bos() const override { return file_.before.has_value(); }
  std::vector<SpecialToken> special_tokens() const override;
  std::string kind() const override { return "huggingface"; }
  std::string name() const override { return "tokenizer.json"; }
  std::string_view file_content() const override { return content_; }
  std::string content_hash() const override;

 private:
  friend class HuggingFaceEncoder;

  // Normalization of an input text. `scratch` and `other` hold the result if it differs from `text`.
  std::string_view normalize(std::string_view text, std::string& scratch, std::string& other) const;
  void make_added_tokens();
  void make_decoded();

  std::string content_;
  HuggingFaceFile file_;  // without tokens and merges, which moved to bpe_
  std::unique_ptr<Bpe> bpe_;
  std::unique_ptr<CharacterVocabulary> characters_;  // null: byte-level
  std::vector<Pretokenizer> cuts_;                   // for each stage of file_.pretokenizer; at least one
  AddedTokens raw_tokens_, normalized_tokens_;
  std::vector<std::string> decoded_;  // [vocab_size]
  DocumentTokens document_tokens_;
};

}  // namespace hearth::tokenizer
