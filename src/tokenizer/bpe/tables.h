// SPDX-License-Identifier: Apache-2.0
// The look-up tables of byte-pair encoding: tokens by their bytes, merges by their pair. Only this folder's sources
// include them.
#pragma once

#include <array>
#include <cstdint>
#include <cstring>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "tokenizer/bpe/bpe.h"
#include "tokenizer/bpe/large_pages.h"

namespace hearth::tokenizer {

// Up to 15 bytes as two words, the length in the last byte: equal keys are equal pieces.
struct ShortKey {
  static constexpr size_t kMostBytes = 15;
  uint64_t low = 0, high = 0;
  bool operator==(const ShortKey& other) const { return ((low ^ other.low) | (high ^ other.high)) == 0; }

  // 0 < bytes.size() <= kMostBytes.
  static ShortKey of(std::string_view bytes) {
    ShortKey key;
    std::memcpy(&key, bytes.data(), bytes.size());
    key.high |= uint64_t{bytes.size()} << 56;
    return key;
  }
  // The same if 16 bytes may be read from `data`.
  static ShortKey of_readable(const char* data, size_t size) {
    ShortKey key;
    std::memcpy(&key, data, sizeof key);
    const uint64_t low_mask = kMasks[size][0], high_mask = kMasks[size][1];
    return {key.low & low_mask, (key.high & high_mask) | uint64_t{size} << 56};
  }
  // By number of bytes: the bits of the two words that these first bytes fill.
  static constexpr auto kMasks = [] {
    std::array<std::array<uint64_t, 2>, kMostBytes + 1> masks{};
    for (size_t size = 0; size <= kMostBytes; ++size) {
      masks[size][0] = size >= 8 ? ~uint64_t{0} : (uint64_t{1} << 8 * size) - 1;
      masks[size][1] = size <= 8 ? 0 : (uint64_t{1} << 8 * (size - 8)) - 1;
    }
    return masks;
  }();
  uint64_t hash() const {
    const auto product = static_cast<unsigned __int128>(low ^ 0x9E3779B97F4A7C15) * (high ^ 0xD1B54A32D192ED03);
    return static_cast<uint64_t>(product) ^ static_cast<uint64_t>(product >> 64);
  }
};

// The rank of a pair that does not merge.
inline constexpr uint32_t kNoRank = 0xFFFFFFFF;

struct Bpe::Tables {
  // ---- tokens by bytes
  struct ShortSlot {
    ShortKey key;  // all zero: empty
    uint32_t id;
    uint32_t is_whole;  // nonzero: a piece of these bytes becomes exactly this token
  };
  struct LongSlot {
    uint64_t hash;
    uint32_t id;  // kNoToken: empty
    uint32_t is_whole;
  };
  std::string bytes;                  // of all tokens, in sequence
  std::vector<uint64_t> ends;         // [size]
  LargeTable<ShortSlot> short_slots;  // a power of two, at most two thirds full
  LargeTable<LongSlot> long_slots;

  // ---- merges by pair: left, right and rank packed into a word
  static constexpr unsigned kIdBits = 21, kRankBits = 22;
  LargeTable<uint64_t> pairs;       // a power of two; ~0: empty
  unsigned pairs_shift = 0;         // 64 - log2(pairs.size())
  LargeTable<uint32_t> byte_pairs;  // [256 * 256] rank of a pair of bytes, by the bytes' tokens
  LargeTable<uint32_t> results;     // [num_ranks] by rank; empty if every rank equals its result
  uint32_t num_ranks = 0;
  std::array<uint32_t, 256> byte_ids;  // kNoToken: no token
  bool whole_piece_first = false;

  std::string_view token(uint32_t id) const {
    if (id >= ends.size()) return {};
    const uint64_t begin = id == 0 ? 0 : ends[id - 1];
    return std::string_view(bytes).substr(begin, ends[id] - begin);
  }
  uint32_t result(uint32_t rank) const { return results.empty() ? rank : results[rank]; }

  // The rank of a pair; kNoRank if it does not merge.
  uint32_t rank_of(uint32_t left, uint32_t right) const {
    if ((left | right) >> kIdBits != 0) return kNoRank;
    const uint64_t pair = uint64_t{left} << kIdBits | right;
    const size_t mask = pairs.size() - 1;
    for (size_t i = (pair * 0x9E3779B97F4A7C15) >> pairs_shift;; i = (i + 1) & mask) {
      const uint64_t slot = pairs[i];
      if (slot >> kRankBits == pair) return static_cast<uint32_t>(slot & ((1U << kRankBits) - 1));
      if (slot == ~uint64_t{0}) return kNoRank;
    }
  }

  const ShortSlot* find_short(const ShortKey& key, uint64_t hash) const {
    const size_t mask = short_slots.size() - 1;
    for (size_t i = hash & mask;; i = (i + 1) & mask) {
      const ShortSlot& slot = short_slots[i];
      if (slot.key == key) return &slot;
      if (slot.key == ShortKey{}) return nullptr;
    }
  }
  const LongSlot* find_long(std::string_view piece) const;

  void set_tokens(std::vector<std::string> tokens);
  void set_merges(std::span<const Merge> merges, std::span<const uint32_t> ranks);
};

}  // namespace hearth::tokenizer
