// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <bit>

#include "base/hash.h"
#include "tokenizer/bpe/merge_queue.h"
#include "tokenizer/bpe/tables.h"

namespace hearth::tokenizer {
namespace {

// With at most this many symbols, a scan for the lowest rank is faster than the queue.
constexpr size_t kScanSymbols = 48;
// Number of pieces whose look-ups are pending at once.
constexpr size_t kAhead = 64;
// Pieces of at most kQuickBytes skip the long cache: merging them is faster than a memory access. Pieces of more than
// kMostCachedBytes skip it because they rarely repeat.
constexpr size_t kQuickBytes = 4, kMostCachedBytes = 256;

// Pieces whose look-ups are pending at once.
struct Batch {
  std::span<const std::string_view> pieces;
  ShortKey keys[kAhead];  // a key that no piece has, if the piece is empty or too long
  uint64_t hashes[kAhead];

  // Reads 16 bytes from the start of a piece if they end before `text_end`, or only the piece's bytes.
  void start(std::span<const std::string_view> its_pieces, const char* text_end) {
    pieces = its_pieces;
    for (size_t i = 0; i < pieces.size(); ++i) {
      const std::string_view piece = pieces[i];
      ShortKey key{0, ~uint64_t{0}};
      if (!piece.empty() && piece.size() <= ShortKey::kMostBytes)
        key = text_end - piece.data() >= 16 ? ShortKey::of_readable(piece.data(), piece.size()) : ShortKey::of(piece);
      keys[i] = key;
      hashes[i] = key.hash();
    }
  }
};

}  // namespace

struct BpeEncoder::State {
  // A piece and its ids. Two share a cache line, and a piece may be in either; the first is the one that came last.
  struct CacheEntry {
    static constexpr size_t kMostIds = 3;
    ShortKey key;  // all zero: empty
    uint32_t count;
    uint32_t ids[kMostIds];
  };
  static_assert(sizeof(CacheEntry) == 32);

  // A piece too long for a key, or of more ids. The bytes of the ids are the piece's, or the entry is another's.
  struct LongEntry {
    static constexpr size_t kMostIds = 13;
    uint64_t hash;
    uint32_t count;  // 0: empty
    uint32_t ids[kMostIds];
  };
  static_assert(sizeof(LongEntry) == 64);

  State(const Bpe::Tables& its_tables, size_t cache_entries)
      : tables(its_tables),
        queue(its_tables),
        cache(cache_entries == 0 ? 0 : std::bit_ceil(std::max<size_t>(cache_entries, 8))),
        long_cache(cache.size() / 8) {}

  void encode_long(std::string_view piece, std::vector<uint32_t>& ids) {
    if (const auto* slot = tables.find_long(piece); slot != nullptr && slot->is_whole)
      ids.push_back(slot->id);
    else if (cache.empty() || piece.size() > kMostCachedBytes)
      encode_bytes(piece, ids);
    else
      encode_by_long_cache(piece, xxh3_64(piece), ids);
  }
  bool is_made_of(std::string_view piece, const LongEntry& entry) const {
    for (size_t i = 0; i < entry.count; ++i) {
      const std::string_view token = tables.token(entry.ids[i]);
      if (!piece.starts_with(token)) return false;
      piece.remove_prefix(token.size());
    }
    return piece.empty();
  }
  void encode_by_long_cache(std::string_view piece, uint64_t hash, std::vector<uint32_t>& ids) {
    LongEntry& entry = long_cache[(hash >> 20) & (long_cache.size() - 1)];
    if (entry.hash == hash && entry.count != 0 && is_made_of(piece, entry)) {
      ids.insert(ids.end(), entry.ids, entry.ids + entry.count);
      return;
    }
    const size_t before = ids.size();
    encode_bytes(piece, ids);
    const size_t count = ids.size() - before;
    if (count > LongEntry::kMostIds) return;
    entry.hash = hash;
    entry.count = static_cast<uint32_t>(count);
    std::copy(ids.begin() + static_cast<std::ptrdiff_t>(before), ids.end(), entry.ids);
  }

  CacheEntry* cache_line(uint64_t hash) { return &cache[(hash >> 32) & (cache.size() - 2)]; }
  const CacheEntry* find_cached(const ShortKey& key, uint64_t hash) {
    const CacheEntry* line = cache_line(hash);
    const CacheEntry* entry = line + static_cast<size_t>(!(line->key == key));  // no branch: both are equally likely
    return entry->key == key ? entry : nullptr;
  }
  void keep(const ShortKey& key, uint64_t hash, std::span<const uint32_t> its_ids) {
    CacheEntry* line = cache_line(hash);
    line[1] = line[0];
    line->key = key;
    line->count = static_cast<uint32_t>(its_ids.size());
    std::copy(its_ids.begin(), its_ids.end(), line->ids);
  }

  // Encodes a piece that has a key and is not in the cache.
  [[gnu::noinline]] void encode_short(std::string_view piece, const ShortKey& key, uint64_t hash,
                                      std::vector<uint32_t>& ids) {
    const size_t before = ids.size();
    if (const auto* slot = tables.find_short(key, hash); slot != nullptr && slot->is_whole)
      ids.push_back(slot->id);
    else if (cache.empty() || piece.size() <= kQuickBytes)
      encode_bytes(piece, ids);
    else
      encode_by_long_cache(piece, hash, ids);
    const std::span made(ids.data() + before, ids.size() - before);
    if (!cache.empty() && made.size() <= CacheEntry::kMostIds) keep(key, hash, made);
  }
  void encode_any(std::string_view piece, const ShortKey& key, uint64_t hash, std::vector<uint32_t>& ids) {
    if (piece.size() > ShortKey::kMostBytes)
      encode_long(piece, ids);
    else if (!piece.empty())
      encode_short(piece, key, hash, ids);
  }
  void encode_batch_cached(const Batch& batch, std::vector<uint32_t>& ids);
  void encode_batch_uncached(const Batch& batch, std::vector<uint32_t>& ids);

  void encode_bytes(std::string_view piece, std::vector<uint32_t>& ids);
  void scan(size_t n, std::vector<uint32_t>& ids);

  const Bpe::Tables& tables;
  MergeQueue queue;
  LargeTable<CacheEntry> cache;
  LargeTable<LongEntry> long_cache;
  std::vector<uint32_t> long_symbols;
  uint32_t symbols[kScanSymbols + 1];
  uint32_t ranks[kScanSymbols + 1];  // of the pair that begins at this symbol
};

// Merges symbols[0, n), whose ranks are set, and appends the resulting ids.
void BpeEncoder::State::scan(size_t n, std::vector<uint32_t>& ids) {
  while (true) {
    uint64_t lowest = uint64_t{kNoRank} << 32;  // rank, then place: the smallest is the leftmost
    for (size_t i = 0; i + 1 < n; ++i) lowest = std::min(lowest, uint64_t{ranks[i]} << 32 | i);
    const auto rank = static_cast<uint32_t>(lowest >> 32);
    if (rank == kNoRank) break;
    const size_t place = lowest & 0xFFFFFFFF;
    symbols[place] = tables.result(rank);
    --n;
    for (size_t i = place + 1; i < n; ++i) {
      symbols[i] = symbols[i + 1];
      ranks[i] = ranks[i + 1];
    }
    if (place + 1 < n) ranks[place] = tables.rank_of(symbols[place], symbols[place + 1]);
    if (place > 0) ranks[place - 1] = tables.rank_of(symbols[place - 1], symbols[place]);
  }
  ids.insert(ids.end(), symbols, symbols + n);
}

// Bytes without a token are dropped.
void BpeEncoder::State::encode_bytes(std::string_view piece, std::vector<uint32_t>& ids) {
  const auto* p = reinterpret_cast<const uint8_t*>(piece.data());
  if (piece.size() <= kScanSymbols) {
    bool all_known = true;
    for (size_t i = 0; i < piece.size(); ++i) {
      symbols[i] = tables.byte_ids[p[i]];
      all_known &= symbols[i] != kNoToken;
    }
    if (all_known) {
      for (size_t i = 0; i + 1 < piece.size(); ++i) ranks[i] = tables.byte_pairs[size_t{p[i]} << 8 | p[i + 1]];
      return scan(piece.size(), ids);
    }
  }
  long_symbols.clear();
  for (size_t i = 0; i < piece.size(); ++i) {
    if (tables.byte_ids[p[i]] != kNoToken) long_symbols.push_back(tables.byte_ids[p[i]]);
  }
  queue.merge(long_symbols, ids);
}

BpeEncoder::BpeEncoder(const Bpe& bpe, size_t cache_entries)
    : state_(std::make_unique<State>(bpe.tables(), cache_entries)) {}
BpeEncoder::~BpeEncoder() = default;

void BpeEncoder::encode_piece(std::string_view piece, std::vector<uint32_t>& ids) {
  if (piece.empty()) return;
  if (piece.size() > ShortKey::kMostBytes) {
    state_->encode_long(piece, ids);
    return;
  }
  const ShortKey key = ShortKey::of(piece);
  const uint64_t hash = key.hash();
  if (!state_->cache.empty()) {
    if (const State::CacheEntry* entry = state_->find_cached(key, hash); entry != nullptr) {
      ids.insert(ids.end(), entry->ids, entry->ids + entry->count);
      return;
    }
  }
  state_->encode_short(piece, key, hash, ids);
}

// A hit always copies kMost ids, whatever the entry's count. This avoids a branch that depends on the count.
void BpeEncoder::State::encode_batch_cached(const Batch& batch, std::vector<uint32_t>& ids) {
  constexpr size_t kMost = CacheEntry::kMostIds;
  uint32_t out[kAhead * kMost];
  size_t count = 0;
  for (size_t i = 0; i < batch.pieces.size(); ++i) __builtin_prefetch(cache_line(batch.hashes[i]));
  for (size_t i = 0; i < batch.pieces.size(); ++i) {
    if (const CacheEntry* entry = find_cached(batch.keys[i], batch.hashes[i]); entry != nullptr) {
      std::memcpy(out + count, entry->ids, sizeof entry->ids);
      count += entry->count;
      continue;
    }
    ids.insert(ids.end(), out, out + count);
    count = 0;
    encode_any(batch.pieces[i], batch.keys[i], batch.hashes[i], ids);
  }
  ids.insert(ids.end(), out, out + count);
}

void BpeEncoder::State::encode_batch_uncached(const Batch& batch, std::vector<uint32_t>& ids) {
  const size_t mask = tables.short_slots.size() - 1;
  for (size_t i = 0; i < batch.pieces.size(); ++i) __builtin_prefetch(&tables.short_slots[batch.hashes[i] & mask]);
  for (size_t i = 0; i < batch.pieces.size(); ++i) encode_any(batch.pieces[i], batch.keys[i], batch.hashes[i], ids);
}

void BpeEncoder::encode_pieces(std::span<const std::string_view> pieces, std::vector<uint32_t>& ids) {
  if (pieces.empty()) return;
  const char* text_end = pieces.back().data() + pieces.back().size();
  Batch batch;
  for (size_t begin = 0; begin < pieces.size(); begin += kAhead) {
    batch.start(pieces.subspan(begin, std::min(kAhead, pieces.size() - begin)), text_end);
    if (state_->cache.empty())
      state_->encode_batch_uncached(batch, ids);
    else
      state_->encode_batch_cached(batch, ids);
  }
}

void BpeEncoder::merge_symbols(std::span<const uint32_t> symbols, std::vector<uint32_t>& ids) {
  State& s = *state_;
  if (symbols.size() > kScanSymbols) {
    s.queue.merge(symbols, ids);
    return;
  }
  std::copy(symbols.begin(), symbols.end(), s.symbols);
  for (size_t i = 0; i + 1 < symbols.size(); ++i) s.ranks[i] = s.tables.rank_of(symbols[i], symbols[i + 1]);
  s.scan(symbols.size(), ids);
}

}  // namespace hearth::tokenizer
