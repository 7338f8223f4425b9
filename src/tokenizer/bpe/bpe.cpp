// SPDX-License-Identifier: Apache-2.0
#include "tokenizer/bpe/bpe.h"

#include <algorithm>
#include <bit>
#include <limits>

#include "base/error.h"
#include "base/hash.h"
#include "tokenizer/bpe/tables.h"

namespace hearth::tokenizer {
namespace {

size_t table_size(size_t entries) { return std::bit_ceil(std::max<size_t>(entries + entries / 2, 16)); }

void check_sizes(size_t tokens, size_t merges) {
  constexpr size_t kMostTokens = size_t{1} << Bpe::Tables::kIdBits,
                   kMostRanks = (size_t{1} << Bpe::Tables::kRankBits) - 1;
  if (tokens > kMostTokens || merges > kMostRanks)
    throw user_error(fmt::format("a vocabulary of {} tokens and {} merges is too large", tokens, merges),
                     fmt::format("Hearth takes {} tokens and {} merges", kMostTokens, kMostRanks));
}

// Marks the tokens whose own bytes encode to exactly this token: such a piece needs no merging.
void mark_whole_pieces(Bpe& bpe, Bpe::Tables& tables) {
  BpeEncoder encoder(bpe, 0);
  std::vector<uint32_t> ids;
  const auto is_whole = [&](uint32_t id) {
    if (tables.whole_piece_first) return true;
    ids.clear();
    encoder.encode_piece(tables.token(id), ids);
    return ids.size() == 1 && ids[0] == id;
  };
  for (auto& slot : tables.short_slots) {
    if (!(slot.key == ShortKey{})) slot.is_whole = is_whole(slot.id);
  }
  for (auto& slot : tables.long_slots) {
    if (slot.id != kNoToken) slot.is_whole = is_whole(slot.id);
  }
}

}  // namespace

const Bpe::Tables::LongSlot* Bpe::Tables::find_long(std::string_view piece) const {
  const uint64_t hash = xxh3_64(piece);
  const size_t mask = long_slots.size() - 1;
  for (size_t i = hash & mask;; i = (i + 1) & mask) {
    const LongSlot& slot = long_slots[i];
    if (slot.id == kNoToken) return nullptr;
    if (slot.hash == hash && token(slot.id) == piece) return &slot;
  }
}

void Bpe::Tables::set_tokens(std::vector<std::string> tokens) {
  size_t num_short = 0, num_long = 0;
  for (const std::string& token : tokens) {
    bytes += token;
    ends.push_back(bytes.size());
    num_short += !token.empty() && token.size() <= ShortKey::kMostBytes;
    num_long += token.size() > ShortKey::kMostBytes;
  }
  short_slots.assign(table_size(num_short), {});
  long_slots.assign(table_size(num_long), {0, kNoToken, 0});
  byte_ids.fill(kNoToken);
  for (uint32_t id = 0; id < tokens.size(); ++id) {
    const std::string_view piece = tokens[id];
    if (piece.empty()) continue;
    if (piece.size() == 1) byte_ids[static_cast<uint8_t>(piece[0])] = id;
    if (piece.size() <= ShortKey::kMostBytes) {
      const ShortKey key = ShortKey::of(piece);
      size_t i = key.hash() & (short_slots.size() - 1);
      while (!(short_slots[i].key == ShortKey{}) && !(short_slots[i].key == key))
        i = (i + 1) & (short_slots.size() - 1);
      if (short_slots[i].key == key)
        throw damaged(fmt::format("tokens {} and {} have the same bytes", short_slots[i].id, id));
      short_slots[i] = {key, id, 0};
    } else {
      if (const LongSlot* other = find_long(piece); other != nullptr)
        throw damaged(fmt::format("tokens {} and {} have the same bytes", other->id, id));
      const uint64_t hash = xxh3_64(piece);
      size_t i = hash & (long_slots.size() - 1);
      while (long_slots[i].id != kNoToken) i = (i + 1) & (long_slots.size() - 1);
      long_slots[i] = {hash, id, 0};
    }
  }
}

// `ranks[i]` is the rank of merges[i]. A later merge of the same pair overwrites an earlier one.
void Bpe::Tables::set_merges(std::span<const Merge> merges, std::span<const uint32_t> ranks) {
  pairs.assign(table_size(merges.size()), ~uint64_t{0});
  pairs_shift = static_cast<unsigned>(64 - std::countr_zero(pairs.size()));
  num_ranks = 0;
  for (size_t m = 0; m < merges.size(); ++m) {
    const uint64_t pair = uint64_t{merges[m].left} << kIdBits | merges[m].right;
    size_t i = (pair * 0x9E3779B97F4A7C15) >> pairs_shift;
    while (pairs[i] != ~uint64_t{0} && pairs[i] >> kRankBits != pair) i = (i + 1) & (pairs.size() - 1);
    pairs[i] = pair << kRankBits | ranks[m];
    num_ranks = std::max(num_ranks, ranks[m] + 1);
  }
  byte_pairs.assign(size_t{256} * 256, kNoRank);
  for (size_t left = 0; left < 256; ++left) {
    for (size_t right = 0; right < 256; ++right) {
      if (byte_ids[left] != kNoToken && byte_ids[right] != kNoToken)
        byte_pairs[left << 8 | right] = rank_of(byte_ids[left], byte_ids[right]);
    }
  }
}

Bpe::Bpe(std::unique_ptr<const Tables> tables) : tables_(std::move(tables)) {}
Bpe::~Bpe() = default;
Bpe::Bpe(Bpe&&) noexcept = default;
Bpe& Bpe::operator=(Bpe&&) noexcept = default;

Bpe Bpe::from_merges(std::vector<std::string> tokens, std::span<const Merge> merges, bool whole_piece_first) {
  check_sizes(tokens.size(), merges.size());
  for (size_t m = 0; m < merges.size(); ++m) {
    const Merge& merge = merges[m];
    if (merge.left >= tokens.size() || merge.right >= tokens.size() || merge.result >= tokens.size())
      throw damaged(fmt::format("merge {} names a token that does not exist", m));
    const std::string &left = tokens[merge.left], &right = tokens[merge.right], &result = tokens[merge.result];
    if (left.empty() || right.empty() || result.size() != left.size() + right.size() || !result.starts_with(left) ||
        !result.ends_with(right))
      throw damaged(fmt::format("merge {} makes token {} of {} and {}, whose bytes do not join to it", m, merge.result,
                                merge.left, merge.right));
  }
  auto made = std::make_unique<Tables>();
  Tables& tables = *made;
  tables.whole_piece_first = whole_piece_first;
  tables.set_tokens(std::move(tokens));
  std::vector<uint32_t> ranks(merges.size());
  for (uint32_t m = 0; m < merges.size(); ++m) {
    ranks[m] = m;
    tables.results.push_back(merges[m].result);
  }
  tables.set_merges(merges, ranks);
  Bpe bpe(std::move(made));
  mark_whole_pieces(bpe, tables);
  return bpe;
}

Bpe Bpe::from_ranks(std::vector<std::string> tokens) {
  check_sizes(tokens.size(), 0);
  auto made = std::make_unique<Tables>();
  Tables& tables = *made;
  tables.whole_piece_first = true;
  tables.set_tokens(std::move(tokens));
  for (size_t byte = 0; byte < 256; ++byte) {
    if (tables.byte_ids[byte] == kNoToken)
      throw damaged(fmt::format("the vocabulary has no token for byte 0x{:02x}", byte));
  }
  Bpe bpe(std::move(made));
  // Every split of a token into two tokens is a merge.
  std::vector<Merge> merges;
  std::vector<uint32_t> ranks;
  for (uint32_t id = 0; id < tables.ends.size(); ++id) {
    for (const Merge& merge : bpe.splits_of(id)) {
      merges.push_back(merge);
      ranks.push_back(id);
    }
  }
  tables.set_merges(merges, ranks);
  mark_whole_pieces(bpe, tables);
  return bpe;
}

std::string_view Bpe::token(uint32_t id) const { return tables_->token(id); }
size_t Bpe::size() const { return tables_->ends.size(); }

std::vector<Merge> Bpe::splits_of(uint32_t id) const {
  const std::string_view bytes = token(id);
  std::vector<Merge> splits;
  for (size_t cut = 1; cut < bytes.size(); ++cut) {
    const auto left = find(bytes.substr(0, cut)), right = find(bytes.substr(cut));
    if (left && right) splits.push_back({*left, *right, id});
  }
  return splits;
}

std::optional<uint32_t> Bpe::find(std::string_view bytes) const {
  if (bytes.empty()) return std::nullopt;
  if (bytes.size() <= ShortKey::kMostBytes) {
    const ShortKey key = ShortKey::of(bytes);
    const auto* slot = tables_->find_short(key, key.hash());
    return slot == nullptr ? std::nullopt : std::optional(slot->id);
  }
  const auto* slot = tables_->find_long(bytes);
  return slot == nullptr ? std::nullopt : std::optional(slot->id);
}

}  // namespace hearth::tokenizer
