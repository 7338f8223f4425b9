// Byte-pair encoding: a piece of text to token ids.
//
// Of all neighbouring pairs that the vocabulary merges, the one of lowest rank is merged first, the leftmost of equals,
// until none is left. Both dialects are this rule: a list of merges (Hugging Face; rank: place in the list), and ranks
// of tokens (tiktoken; a pair merges if its bytes are a token, rank: that token's id).
//
// No input is slow: a piece of n symbols takes time in proportion to n, whatever it is, up to what memory costs.
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

struct BpeOptions {
  // A piece that is a token as a whole becomes that token, whatever the merges say: `ignore_merges`, and tiktoken.
  bool whole_piece_first = false;
  // The id of a byte that has no token of its own; without one such bytes are dropped, as Hugging Face does.
  std::optional<uint32_t> unknown;
  bool fuse_unknown = false;  // neighbouring unknown bytes are one id
};

// A vocabulary, made ready. Immutable, shared by threads.
class Bpe {
 public:
  struct Tables;

  // `tokens`: the bytes of each id; "" for an id that no text gives (special tokens, holes). `merges` in order of rank;
  // a pair that stands there twice keeps its last place, as in Hugging Face. Throws damaged() for a merge of ids that
  // do not exist or whose bytes do not join to the result's.
  static Bpe from_merges(std::vector<std::string> tokens, std::span<const Merge> merges, const BpeOptions& options);
  // A token's rank is its id. Implies whole_piece_first. Throws damaged() if a byte has no token, or two have the same.
  static Bpe from_ranks(std::vector<std::string> tokens);

  ~Bpe();
  Bpe(Bpe&&) noexcept;
  Bpe& operator=(Bpe&&) noexcept;

  // Bytes of an id, "" where it has none; ids past the end have none.
  std::string_view token(uint32_t id) const;
  size_t size() const;  // of `tokens`
  std::optional<uint32_t> find(std::string_view bytes) const;
  const Tables& tables() const { return *tables_; }

 private:
  explicit Bpe(std::unique_ptr<const Tables> tables);
  std::unique_ptr<const Tables> tables_;
};

// Encodes for one thread: scratch memory, and a cache of pieces that never grows. Borrows the vocabulary.
class BpeEncoder {
 public:
  static constexpr size_t kDefaultCacheEntries = 1 << 17;

  // cache_entries: rounded up to a power of two; 0: no cache.
  explicit BpeEncoder(const Bpe& bpe, size_t cache_entries = kDefaultCacheEntries);
  ~BpeEncoder();
  BpeEncoder(const BpeEncoder&) = delete;
  BpeEncoder& operator=(const BpeEncoder&) = delete;

  // Appends the ids of one piece, whose symbols are bytes. Empty pieces append nothing.
  void encode_piece(std::string_view piece, std::vector<uint32_t>& ids);
  // The same for many pieces of one text, in its order: faster, because look-ups overlap.
  void encode_pieces(std::span<const std::string_view> pieces, std::vector<uint32_t>& ids);
  // Merges symbols that the caller chose (characters, byte-fallback tokens) and appends what is left. Ids that no merge
  // names (unknown) stay. The cache has no part in it.
  void merge_symbols(std::span<const uint32_t> symbols, std::vector<uint32_t>& ids);

  // Bytes that had no token and no BpeOptions::unknown.
  int64_t dropped_bytes() const;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace hearth::tokenizer
