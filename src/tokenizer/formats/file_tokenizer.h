// SPDX-License-Identifier: Apache-2.0
// The base class of text tokenizers that are read from a file.
#pragma once

#include <string>
#include <string_view>
#include <utility>

#include "tokenizer/formats/document_tokens.h"
#include "tokenizer/tokenizer.h"

namespace hearth::tokenizer {

class FileTokenizer : public Tokenizer {
 public:
  // The tokens that the file itself puts before and after a document.
  virtual DocumentTokens file_tokens() const = 0;
  // Call this before threads share the tokenizer.
  void set_document_tokens(DocumentTokens tokens) { document_tokens_ = tokens; }

  using Tokenizer::encode;
  std::optional<uint32_t> bos() const final { return document_tokens_.bos; }
  std::optional<uint32_t> eos() const final { return document_tokens_.eos; }
  std::string_view file_content() const final { return content_; }
  std::string content_hash() const override { return hash_with_document_tokens(content_, document_tokens_); }

 protected:
  explicit FileTokenizer(std::string content) : content_(std::move(content)) {}

  std::string content_;
  DocumentTokens document_tokens_;
};

}  // namespace hearth::tokenizer
