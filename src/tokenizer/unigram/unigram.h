// SPDX-License-Identifier: Apache-2.0
// Unigram tokenizers (T5, ALBERT, XLM-R, Pegasus): from a piece of text to the ids of its most probable segmentation.
//
// Ids equal those of the library `tokenizers`. Scores are doubles and are added from left to right. Among segmentations
// of equal score, the one whose last token is longest wins. A character without a token of its own may also be unknown,
// with a score of 10 below the lowest. Neighbouring unknown characters are one unknown text. If that text is no token,
// it becomes the tokens of its bytes ("<0x0A>"), or else the unknown token.
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "tokenizer/bpe/bpe.h"
#include "tokenizer/bpe/piece_cache.h"

namespace hearth::tokenizer {

struct UnigramOptions {
  uint32_t unknown = 0;                 // the unknown token
  std::vector<uint32_t> byte_tokens{};  // [256], or empty: no byte fallback; kNoToken: this byte has no token
};

// Immutable, shared by threads.
class UnigramVocabulary {
 public:
  // `tokens`: UTF-8 texts, all different. `scores`: [tokens.size()], finite.
  UnigramVocabulary(std::vector<std::string> tokens, std::vector<double> scores, UnigramOptions options);

  size_t size() const { return tokens_.size(); }
  std::string_view token(uint32_t id) const { return tokens_[id]; }

 private:
  friend class UnigramEncoder;

  struct Edge {
    uint64_t key;   // node << 8 | byte
    uint32_t node;  // 0: no edge here, because no edge leads to the root
    uint32_t id;    // of the token that ends there, or kNoToken
  };
  // The edge from `node` by `byte`, or an edge with node 0.
  const Edge& edge(uint32_t node, unsigned char byte) const {
    const uint64_t key = uint64_t{node} << 8 | byte;
    size_t slot = slot_of(key);
    while (edges_[slot].node != 0 && edges_[slot].key != key) slot = (slot + 1) & (edges_.size() - 1);
    return edges_[slot];
  }
  size_t slot_of(uint64_t key) const {
    return static_cast<size_t>((key * 0x9E3779B97F4A7C15) >> 32) & (edges_.size() - 1);
  }
  void add(std::string_view token, uint32_t id);
  std::optional<uint32_t> find(std::string_view text) const;

  std::vector<std::string> tokens_;
  std::vector<double> scores_;
  UnigramOptions options_;
  double unknown_score_;
  std::vector<Edge> edges_;  // a trie over bytes; open addressing, at most half full
  uint32_t num_nodes_ = 1;
};

// For one thread. Has scratch memory and a cache of pieces of fixed size. Borrows the vocabulary.
class UnigramEncoder {
 public:
  explicit UnigramEncoder(const UnigramVocabulary& vocabulary, bool cached = true);
  // Appends the ids of a piece, which must be valid UTF-8.
  void encode_piece(std::string_view piece, std::vector<uint32_t>& ids);

 private:
  struct Place {  // a border between characters
    double score;
    uint32_t length;  // of the best path's last token, in bytes; 0: no path yet
    uint32_t id;
  };
  void search(std::string_view piece, std::vector<uint32_t>& ids);
  void extend(std::string_view piece, size_t base, size_t at, size_t& reach);
  void emit(std::string_view piece, size_t base, size_t end, std::vector<uint32_t>& ids);
  void emit_unknown(std::string_view text, std::vector<uint32_t>& ids) const;

  const UnigramVocabulary& v_;
  std::vector<Place> places_;   // at [i]: the place base + i of the current piece
  std::vector<uint32_t> path_;  // lengths of tokens, from the right
  std::vector<uint32_t> path_ids_;
  size_t unknown_begin_ = 0, unknown_end_ = 0;  // unknown characters that are not appended yet
  PieceCache cache_;
};

}  // namespace hearth::tokenizer
