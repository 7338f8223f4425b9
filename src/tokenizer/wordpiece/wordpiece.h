// SPDX-License-Identifier: Apache-2.0
// WordPiece tokenizers (BERT, NeoBERT, MiniLM): from a word to the ids of its longest tokens, taken from left to right.
//
// Ids equal those of the library `tokenizers`. A token behind the first one of a word is spelled with a prefix:
// "##ing". A word that cannot be spelled with tokens is the unknown token, as a whole. So is a word with too many
// characters.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "tokenizer/bpe/piece_cache.h"

namespace hearth::tokenizer {

struct WordPieceOptions {
  uint32_t unknown = 0;         // the unknown token
  std::string prefix = "##";    // of a token that continues a word
  size_t max_characters = 100;  // of a word that is spelled with tokens
};

// Immutable, shared by threads.
class WordPieceVocabulary {
 public:
  // `tokens`: UTF-8 texts, all different; empty: no token has this id.
  WordPieceVocabulary(std::vector<std::string> tokens, WordPieceOptions options);
  WordPieceVocabulary(const WordPieceVocabulary&) = delete;  // ids_ looks into tokens_
  WordPieceVocabulary& operator=(const WordPieceVocabulary&) = delete;

  size_t size() const { return tokens_.size(); }
  std::string_view token(uint32_t id) const { return tokens_[id]; }

 private:
  friend class WordPieceEncoder;

  std::vector<std::string> tokens_;
  WordPieceOptions options_;
  std::unordered_map<std::string_view, uint32_t> ids_;
  size_t longest_ = 0;  // token, in bytes
};

// For one thread. Has scratch memory and a cache of words of fixed size. Borrows the vocabulary.
class WordPieceEncoder {
 public:
  explicit WordPieceEncoder(const WordPieceVocabulary& vocabulary, bool cached = true);
  // Appends the ids of a word, which must be valid UTF-8.
  void encode_piece(std::string_view word, std::vector<uint32_t>& ids);

 private:
  bool spell(std::string_view word, std::vector<uint32_t>& ids);

  const WordPieceVocabulary& v_;
  std::string rest_;  // the prefix, and what is left of the word
  PieceCache cache_;
};

}  // namespace hearth::tokenizer
