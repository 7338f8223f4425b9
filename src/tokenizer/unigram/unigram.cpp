// SPDX-License-Identifier: Apache-2.0
#include "tokenizer/unigram/unigram.h"

#include <algorithm>

#include "base/error.h"
#include "tokenizer/unicode/unicode.h"

namespace hearth::tokenizer {
namespace {

constexpr double kUnknownPenalty = 10.0;   // SentencePiece's kUnkPenalty
constexpr size_t kCacheEntries = 1 << 16;  // 4 MB
constexpr size_t kPlacesAtOnce = 1 << 12;  // a search ends at the first border behind these that every path has

}  // namespace

UnigramVocabulary::UnigramVocabulary(std::vector<std::string> tokens, std::vector<double> scores,
                                     UnigramOptions options)
    : tokens_(std::move(tokens)), scores_(std::move(scores)), options_(std::move(options)), edges_(1024) {
  HEARTH_CHECK(tokens_.size() == scores_.size() && options_.unknown < tokens_.size());
  unknown_score_ = *std::min_element(scores_.begin(), scores_.end()) - kUnknownPenalty;
  for (uint32_t id = 0; id < tokens_.size(); ++id) add(tokens_[id], id);
}

void UnigramVocabulary::add(std::string_view token, uint32_t id) {
  uint32_t node = 0;
  for (size_t i = 0; i < token.size(); ++i) {
    const auto byte = static_cast<unsigned char>(token[i]);
    Edge* found = const_cast<Edge*>(&edge(node, byte));
    if (found->node == 0) {
      if (num_nodes_ * size_t{2} >= edges_.size()) {
        std::vector<Edge> old(edges_.size() * 2);
        old.swap(edges_);
        for (const Edge& moved : old) {
          if (moved.node == 0) continue;
          size_t slot = slot_of(moved.key);
          while (edges_[slot].node != 0) slot = (slot + 1) & (edges_.size() - 1);
          edges_[slot] = moved;
        }
        found = const_cast<Edge*>(&edge(node, byte));
      }
      *found = {uint64_t{node} << 8 | byte, num_nodes_++, kNoToken};
    }
    node = found->node;
    if (i + 1 == token.size()) found->id = id;
  }
}

std::optional<uint32_t> UnigramVocabulary::find(std::string_view text) const {
  uint32_t node = 0, id = kNoToken;
  for (const char byte : text) {
    const Edge& next = edge(node, static_cast<unsigned char>(byte));
    if (next.node == 0) return {};
    node = next.node;
    id = next.id;
  }
  return id == kNoToken ? std::nullopt : std::optional<uint32_t>(id);
}

UnigramEncoder::UnigramEncoder(const UnigramVocabulary& vocabulary, bool cached)
    : v_(vocabulary), cache_(cached ? kCacheEntries : 0) {}

void UnigramEncoder::encode_piece(std::string_view piece, std::vector<uint32_t>& ids) {
  if (piece.empty()) return;
  cache_.append(piece, ids, [&](std::vector<uint32_t>& to) { search(piece, to); });
}

// Viterbi's algorithm. A border that no token spans is on every path, so the best path up to it is final there.
void UnigramEncoder::search(std::string_view piece, std::vector<uint32_t>& ids) {
  unknown_begin_ = unknown_end_ = 0;
  size_t base = 0, reach = 0;  // reach: the farthest end of a token so far
  places_.assign(1, {0.0, 0, 0});
  for (size_t at = 0; at < piece.size();) {
    if (at == reach && at - base >= kPlacesAtOnce) {
      emit(piece, base, at, ids);
      places_.assign(1, {places_[at - base].score, 0, 0});
      base = at;
    }
    extend(piece, base, at, reach);
    at += decode_utf8(piece, at).length;
  }
  emit(piece, base, piece.size(), ids);
  if (unknown_begin_ != unknown_end_) emit_unknown(piece.substr(unknown_begin_, unknown_end_ - unknown_begin_), ids);
}

// Adds all tokens that begin at `at`.
void UnigramEncoder::extend(std::string_view piece, size_t base, size_t at, size_t& reach) {
  const double before = places_[at - base].score;
  const auto add = [&](size_t end, double score, uint32_t id) {
    if (end > reach) {
      reach = end;
      if (places_.size() <= end - base) places_.resize(end - base + 1, {0.0, 0, 0});
    }
    Place& place = places_[end - base];
    const double sum = score + before;
    if (place.length == 0 || sum > place.score) place = {sum, static_cast<uint32_t>(end - at), id};
  };
  const Decoded character = decode_utf8(piece, at);
  HEARTH_CHECK(character.c != kInvalidByte);
  bool has_single = false;
  uint32_t node = 0;
  for (size_t end = at; end < piece.size();) {
    const UnigramVocabulary::Edge& edge = v_.edge(node, static_cast<unsigned char>(piece[end++]));
    if (edge.node == 0) break;
    node = edge.node;
    if (edge.id == kNoToken) continue;
    add(end, v_.scores_[edge.id], edge.id);
    has_single |= end - at == character.length;
  }
  if (!has_single) add(at + character.length, v_.unknown_score_, v_.options_.unknown);
}

// Appends the best path from `base` to `end`, but not its unknown characters at the end.
void UnigramEncoder::emit(std::string_view piece, size_t base, size_t end, std::vector<uint32_t>& ids) {
  path_.clear();
  path_ids_.clear();
  for (size_t at = end; at > base; at -= path_.back()) {
    path_.push_back(places_[at - base].length);
    path_ids_.push_back(places_[at - base].id);
  }
  size_t at = base;
  for (size_t i = path_.size(); i-- > 0; at += path_[i]) {
    if (path_ids_[i] == v_.options_.unknown) {
      if (unknown_begin_ == unknown_end_) unknown_begin_ = at;
      unknown_end_ = at + path_[i];
      continue;
    }
    if (unknown_begin_ != unknown_end_) emit_unknown(piece.substr(unknown_begin_, unknown_end_ - unknown_begin_), ids);
    unknown_begin_ = unknown_end_ = 0;
    ids.push_back(path_ids_[i]);
  }
}

void UnigramEncoder::emit_unknown(std::string_view text, std::vector<uint32_t>& ids) const {
  if (const auto id = v_.find(text)) return ids.push_back(*id);
  const std::vector<uint32_t>& bytes = v_.options_.byte_tokens;
  const auto has_token = [&](char byte) { return bytes[static_cast<unsigned char>(byte)] != kNoToken; };
  if (bytes.empty() || !std::all_of(text.begin(), text.end(), has_token)) return ids.push_back(v_.options_.unknown);
  for (const char byte : text) ids.push_back(bytes[static_cast<unsigned char>(byte)]);
}

}  // namespace hearth::tokenizer
