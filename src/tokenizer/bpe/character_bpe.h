// SPDX-License-Identifier: Apache-2.0
// Byte-pair encoding over characters (Llama-2, Mistral, Gemma). A character without a token becomes the tokens of its
// bytes ("<0x0A>").
//
// Such a tokenizer often has no pre-tokenizer, so a whole document is one piece. This encoder still cuts it, wherever
// two neighbouring characters are adjacent in no token. No merge crosses such a place, so the ids stay the same. The
// resulting runs are short, like words, and a cache of them saves time.
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "tokenizer/bpe/bpe.h"
#include "tokenizer/bpe/piece_cache.h"

namespace hearth::tokenizer {

// Immutable, shared by threads. Borrows the vocabulary. Its tokens are UTF-8 texts.
class CharacterVocabulary {
 public:
  // `byte_tokens`: [256]. No merge may contain one of them.
  CharacterVocabulary(const Bpe& bpe, const std::vector<uint32_t>& byte_tokens, bool whole_piece_first);

  const Bpe& bpe() const { return bpe_; }
  bool whole_piece_first() const { return whole_piece_first_; }
  // The token that is exactly this character, or kNoToken.
  uint32_t token_of(char32_t c) const {
    const std::vector<uint32_t>& page = pages_[c >> 8];
    return page.empty() ? kNoToken : page[c & 255];
  }
  uint32_t token_of_byte(unsigned char byte) const { return byte_tokens_[byte]; }
  // Whether some token contains the two characters next to each other. The arguments are the characters' tokens.
  bool may_join(uint32_t left, uint32_t right) const;

 private:
  void add_pairs_of(std::string_view token);
  void insert_pair(uint64_t pair);

  const Bpe& bpe_;
  std::vector<uint32_t> byte_tokens_;
  bool whole_piece_first_;
  std::array<std::vector<uint32_t>, 0x1100> pages_;  // 256 code points each; empty: no code point has a token
  std::vector<uint64_t> pairs_;                      // open addressing; the size is a power of two, at most half full
  size_t num_pairs_ = 0;
};

// For one thread. Borrows the vocabulary.
class CharacterEncoder {
 public:
  explicit CharacterEncoder(const CharacterVocabulary& vocabulary, bool cached = true);
  // Appends the ids of a piece, which must be valid UTF-8.
  void encode_piece(std::string_view piece, std::vector<uint32_t>& ids);

 private:
  void encode_run(std::string_view run, std::vector<uint32_t>& ids);

  const CharacterVocabulary& vocabulary_;
  BpeEncoder merger_;
  std::vector<uint32_t> symbols_;  // of the current run
  PieceCache cache_;
};

}  // namespace hearth::tokenizer
