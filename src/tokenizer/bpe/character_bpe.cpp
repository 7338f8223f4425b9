// SPDX-License-Identifier: Apache-2.0
#include "tokenizer/bpe/character_bpe.h"

#include <algorithm>

#include "base/error.h"
#include "tokenizer/bpe/pair.h"
#include "tokenizer/unicode/unicode.h"

namespace hearth::tokenizer {
namespace {

constexpr uint64_t kNoPair = ~uint64_t{0};
constexpr size_t kCacheEntries = 1 << 14;  // 1 MB
constexpr uint64_t kMix = 0x9E3779B97F4A7C15;

size_t slot_of(Pair pair, size_t size) { return static_cast<size_t>((pair * kMix) >> 32) & (size - 1); }

}  // namespace

CharacterVocabulary::CharacterVocabulary(const Bpe& bpe, const std::vector<uint32_t>& byte_tokens,
                                         bool whole_piece_first)
    : bpe_(bpe), byte_tokens_(byte_tokens), whole_piece_first_(whole_piece_first), pairs_(1024, kNoPair) {
  for (uint32_t id = 0; id < bpe.size(); ++id) {
    const std::string_view text = bpe.token(id);
    if (text.empty()) continue;
    const Decoded decoded = decode_utf8(text, 0);
    if (decoded.length != text.size() || decoded.c == kInvalidByte) continue;
    std::vector<uint32_t>& page = pages_[decoded.c >> 8];
    if (page.empty()) page.assign(256, kNoToken);
    page[decoded.c & 255] = id;
  }
  for (uint32_t id = 0; id < bpe.size(); ++id) add_pairs_of(bpe.token(id));
}

void CharacterVocabulary::add_pairs_of(std::string_view token) {
  uint32_t left = kNoToken;
  for (size_t at = 0; at < token.size();) {
    const Decoded decoded = decode_utf8(token, at);
    at += decoded.length;
    const uint32_t right = decoded.c == kInvalidByte ? kNoToken : token_of(decoded.c);
    if (left != kNoToken && right != kNoToken) insert_pair(pair_of(left, right));
    left = right;
  }
}

void CharacterVocabulary::insert_pair(uint64_t pair) {
  size_t slot = slot_of(pair, pairs_.size());
  for (; pairs_[slot] != kNoPair; slot = (slot + 1) & (pairs_.size() - 1))
    if (pairs_[slot] == pair) return;
  pairs_[slot] = pair;
  if (++num_pairs_ * 2 < pairs_.size()) return;
  std::vector<Pair> old(pairs_.size() * 2, kNoPair);
  old.swap(pairs_);
  num_pairs_ = 0;
  for (const uint64_t moved : old)
    if (moved != kNoPair) insert_pair(moved);
}

bool CharacterVocabulary::may_join(uint32_t left, uint32_t right) const {
  const Pair pair = pair_of(left, right);
  for (size_t slot = slot_of(pair, pairs_.size()); pairs_[slot] != kNoPair; slot = (slot + 1) & (pairs_.size() - 1))
    if (pairs_[slot] == pair) return true;
  return false;
}

CharacterEncoder::CharacterEncoder(const CharacterVocabulary& vocabulary, bool cached)
    : vocabulary_(vocabulary), merger_(vocabulary.bpe(), /*cache_entries=*/0), cache_(cached ? kCacheEntries : 0) {}

void CharacterEncoder::encode_piece(std::string_view piece, std::vector<uint32_t>& ids) {
  if (vocabulary_.whole_piece_first()) {
    if (const auto whole = vocabulary_.bpe().find(piece)) return ids.push_back(*whole);
  }
  size_t run_begin = 0;
  symbols_.clear();
  const auto end_run = [&](size_t end) {
    if (!symbols_.empty()) encode_run(piece.substr(run_begin, end - run_begin), ids);
    symbols_.clear();
    run_begin = end;
  };
  for (size_t at = 0; at < piece.size();) {
    const Decoded decoded = decode_utf8(piece, at);
    HEARTH_CHECK(decoded.c != kInvalidByte);
    const uint32_t token = vocabulary_.token_of(decoded.c);
    if (token == kNoToken) {
      end_run(at);
      for (size_t i = 0; i < decoded.length; ++i)
        ids.push_back(vocabulary_.token_of_byte(static_cast<unsigned char>(piece[at + i])));
      at += decoded.length;
      run_begin = at;
      continue;
    }
    if (!symbols_.empty() && !vocabulary_.may_join(symbols_.back(), token)) end_run(at);
    symbols_.push_back(token);
    at += decoded.length;
  }
  end_run(piece.size());
}

// `run` is the text of symbols_.
void CharacterEncoder::encode_run(std::string_view run, std::vector<uint32_t>& ids) {
  if (symbols_.size() == 1) return ids.push_back(symbols_[0]);
  cache_.append(run, ids, [&](std::vector<uint32_t>& to) { merger_.merge_symbols(symbols_, to); });
}

}  // namespace hearth::tokenizer
