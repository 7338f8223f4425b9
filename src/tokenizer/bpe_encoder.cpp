#include <algorithm>
#include <bit>

#include "tokenizer/bpe_tables.h"
#include "tokenizer/merge_queue.h"

namespace hearth::tokenizer {
namespace {

// Up to this many symbols a scan for the lowest rank is quicker than the queue.
constexpr size_t kScanSymbols = 48;
// Look-ups of this many pieces are under way at once.
constexpr size_t kAhead = 16;

// A piece that is no single token, and its ids. One cache line in two holds an entry.
struct CacheEntry {
  static constexpr size_t kMostIds = 3;
  ShortKey key;  // all zero: empty
  uint32_t count;
  uint32_t ids[kMostIds];
};
static_assert(sizeof(CacheEntry) == 32);

}  // namespace

struct BpeEncoder::State {
  State(const Bpe::Tables& its_tables, size_t cache_entries)
      : tables(its_tables), queue(its_tables), cache(cache_entries == 0 ? 0 : std::bit_ceil(cache_entries)) {}

  void encode_long(std::string_view piece, std::vector<uint32_t>& ids) {
    if (const auto* slot = tables.find_long(piece); slot != nullptr && slot->is_whole)
      ids.push_back(slot->id);
    else
      encode_bytes(piece, ids);
  }
  void encode_short(std::string_view piece, const ShortKey& key, uint64_t hash, std::vector<uint32_t>& ids) {
    if (const auto* slot = tables.find_short(key, hash); slot != nullptr && slot->is_whole) {
      ids.push_back(slot->id);
      return;
    }
    if (cache.empty()) {
      encode_bytes(piece, ids);
      return;
    }
    CacheEntry& entry = cache[(hash >> 32) & (cache.size() - 1)];
    if (entry.key == key) {
      ids.insert(ids.end(), entry.ids, entry.ids + entry.count);
      return;
    }
    const size_t before = ids.size();
    const int64_t dropped_before = dropped_bytes;
    encode_bytes(piece, ids);
    const size_t count = ids.size() - before;
    if (count > CacheEntry::kMostIds || dropped_bytes != dropped_before) return;
    entry.key = key;
    entry.count = static_cast<uint32_t>(count);
    std::copy(ids.begin() + static_cast<std::ptrdiff_t>(before), ids.end(), entry.ids);
  }

  void encode_bytes(std::string_view piece, std::vector<uint32_t>& ids);
  void scan(size_t n, std::vector<uint32_t>& ids);
  void symbols_of_bytes(std::string_view piece, std::vector<uint32_t>& out);

  const Bpe::Tables& tables;
  MergeQueue queue;
  std::vector<CacheEntry> cache;
  std::vector<uint32_t> long_symbols;
  uint32_t symbols[kScanSymbols + 1];
  uint32_t ranks[kScanSymbols + 1];  // of the pair that begins there
  int64_t dropped_bytes = 0;
};

// The bytes' tokens; bytes without one become the unknown token or are dropped.
void BpeEncoder::State::symbols_of_bytes(std::string_view piece, std::vector<uint32_t>& out) {
  out.clear();
  bool after_unknown = false;
  for (const char c : piece) {
    const uint32_t id = tables.byte_ids[static_cast<uint8_t>(c)];
    if (id != kNoToken) {
      out.push_back(id);
      after_unknown = false;
    } else if (tables.options.unknown) {
      if (!after_unknown || !tables.options.fuse_unknown) out.push_back(*tables.options.unknown);
      after_unknown = true;
    } else {
      ++dropped_bytes;
    }
  }
}

// Merges symbols[0, n), whose ranks are set, and appends what is left.
void BpeEncoder::State::scan(size_t n, std::vector<uint32_t>& ids) {
  while (true) {
    uint64_t lowest = uint64_t{kNoRank} << 32;  // rank and place in one word: the leftmost of equals is the least
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

void BpeEncoder::State::encode_bytes(std::string_view piece, std::vector<uint32_t>& ids) {
  if (piece.size() > kScanSymbols) {
    symbols_of_bytes(piece, long_symbols);
    queue.merge(long_symbols, ids);
    return;
  }
  const auto* p = reinterpret_cast<const uint8_t*>(piece.data());
  bool all_known = true;
  for (size_t i = 0; i < piece.size(); ++i) {
    symbols[i] = tables.byte_ids[p[i]];
    all_known &= symbols[i] != kNoToken;
  }
  if (!all_known) {
    symbols_of_bytes(piece, long_symbols);
    queue.merge(long_symbols, ids);
    return;
  }
  for (size_t i = 0; i + 1 < piece.size(); ++i) ranks[i] = tables.byte_pairs[size_t{p[i]} << 8 | p[i + 1]];
  scan(piece.size(), ids);
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
  state_->encode_short(piece, key, key.hash(), ids);
}

void BpeEncoder::encode_pieces(std::span<const std::string_view> pieces, std::vector<uint32_t>& ids) {
  State& s = *state_;
  if (pieces.empty()) return;
  const char* text_end = pieces.back().data() + pieces.back().size();
  const size_t mask = s.tables.short_slots.size() - 1;
  ShortKey keys[kAhead];
  uint64_t hashes[kAhead];
  for (size_t begin = 0; begin < pieces.size(); begin += kAhead) {
    const size_t count = std::min(kAhead, pieces.size() - begin);
    for (size_t i = 0; i < count; ++i) {
      const std::string_view piece = pieces[begin + i];
      if (piece.empty() || piece.size() > ShortKey::kMostBytes) continue;
      keys[i] = text_end - piece.data() >= 16 ? ShortKey::of_readable(piece.data(), piece.size()) : ShortKey::of(piece);
      hashes[i] = keys[i].hash();
      __builtin_prefetch(&s.tables.short_slots[hashes[i] & mask]);
    }
    for (size_t i = 0; i < count; ++i) {
      const std::string_view piece = pieces[begin + i];
      if (piece.empty()) continue;
      if (piece.size() > ShortKey::kMostBytes)
        s.encode_long(piece, ids);
      else
        s.encode_short(piece, keys[i], hashes[i], ids);
    }
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

int64_t BpeEncoder::dropped_bytes() const { return state_->dropped_bytes; }

}  // namespace hearth::tokenizer
