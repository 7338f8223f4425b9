// SPDX-License-Identifier: Apache-2.0
// The tokenizer of data that are arrays of counts, not text: a vocabulary of src/recordings.
#pragma once

#include <memory>
#include <string>

#include "recordings/vocabulary.h"
#include "tokenizer/tokenizer.h"

namespace hearth::tokenizer {

class ArrayTokenizer final : public Tokenizer {
 public:
  explicit ArrayTokenizer(std::unique_ptr<const recordings::ArrayVocabulary> vocabulary)
      : vocabulary_(std::move(vocabulary)) {}

  const recordings::ArrayVocabulary* arrays() const override { return vocabulary_.get(); }
  bool has_text() const override { return false; }
  // The encoder throws user_error for a text that is not empty.
  std::unique_ptr<Encoder> encoder(SpecialText special) const override;
  size_t safe_cut(std::string_view, size_t limit) const override { return limit; }
  void decode(uint32_t id, std::string& text) const override;  // for display
  int64_t vocab_size() const override { return vocabulary_->vocab_size(); }
  std::optional<uint32_t> bos() const override { return vocabulary_->bos(); }
  std::optional<uint32_t> eos() const override { return {}; }
  std::string kind() const override { return vocabulary_->kind(); }
  std::string name() const override { return vocabulary_->name(); }
  std::string_view file_content() const override { return vocabulary_->file_content(); }
  std::string content_hash() const override { return vocabulary_->content_hash(); }

 private:
  std::unique_ptr<const recordings::ArrayVocabulary> vocabulary_;
};

}  // namespace hearth::tokenizer
