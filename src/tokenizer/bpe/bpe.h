// SPDX-License-Identifier: Apache-2.0
// Byte-pair encoding: from a piece of text to token ids.
//
// Among all neighbouring pairs that the vocabulary merges, the pair of lowest rank is merged first, the leftmost one
// among equals. This repeats until no pair is left. Both dialects follow this rule. Hugging Face has a list of merges:
// a merge's rank is its place in the list. tiktoken has ranks of tokens: a pair merges if its bytes are a token, and
// the rank is that token's id.
//
// No input is slow: a piece of n symbols takes time proportional to n, apart from cache misses.
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace hearth::tokenizer {

struct Merge {
  uint32_t left, right, result;
};

inline constexpr uint32_t kNoToken = 0xFFFFFFFF;

// A vocabulary with its look-up tables. Immutable, shared by threads.
class Bpe {
 public:
  struct Tables;

  // `tokens`: the bytes of each id; "" for an id that no text produces (special tokens, holes). `merges` in order of
  // rank. A pair that appears twice keeps its last rank, as in Hugging Face. `whole_piece_first`: a piece that equals a
  // token becomes that token, whatever the merges say (`ignore_merges`, and tiktoken). Throws damaged() for a merge of
  // ids that do not exist, or if the two tokens' bytes do not join to the result's.
  static Bpe from_merges(std::vector<std::string> tokens, std::span<const Merge> merges,
                         bool whole_piece_first = false);
  // A token's rank is its id. Implies whole_piece_first. Throws damaged() if a byte has no token, or if two tokens have
  // the same bytes.
  static Bpe from_ranks(std::vector<std::string> tokens);

  ~Bpe();
  Bpe(Bpe&&) noexcept;
  Bpe& operator=(Bpe&&) noexcept;

  // The bytes of an id; "" for an id without bytes, or past the end.
  std::string_view token(uint32_t id) const;
  size_t size() const;  // number of `tokens`
  std::optional<uint32_t> find(std::string_view bytes) const;
  // Every way to cut the token's bytes into two tokens, in the order of the cuts.
  std::vector<Merge> splits_of(uint32_t id) const;
  const Tables& tables() const { return *tables_; }

 private:
  explicit Bpe(std::unique_ptr<const Tables> tables);
  std::unique_ptr<const Tables> tables_;
};

// Encodes for one thread. Has scratch memory and a cache of pieces of fixed size. Borrows the vocabulary.
class BpeEncoder {
 public:
  static constexpr size_t kDefaultCacheEntries = 1 << 17;

  // `cache_entries` is rounded up to a power of two; 0: no cache.
  explicit BpeEncoder(const Bpe& bpe, size_t cache_entries = kDefaultCacheEntries);
  ~BpeEncoder();
  BpeEncoder(const BpeEncoder&) = delete;
  BpeEncoder& operator=(const BpeEncoder&) = delete;

  // Appends the ids of one piece, whose symbols are bytes. Empty pieces append nothing, and so do bytes without a
  // token, as in Hugging Face.
  void encode_piece(std::string_view piece, std::vector<uint32_t>& ids);
  // The same for many pieces of one text, in its order. Faster, because look-ups overlap.
  void encode_pieces(std::span<const std::string_view> pieces, std::vector<uint32_t>& ids);
  // Merges symbols that the caller chose (characters, byte-fallback tokens) and appends the resulting ids. Ids that are
  // in no merge stay. This function does not use the cache.
  void merge_symbols(std::span<const uint32_t> symbols, std::vector<uint32_t>& ids);

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace hearth::tokenizer
