// SPDX-License-Identifier: Apache-2.0
#include "tokenizer/bpe/merge_queue.h"

#include <algorithm>
#include <bit>
#include <functional>

#include "base/error.h"

namespace hearth::tokenizer {
namespace {

constexpr uint32_t kNone = 0xFFFFFFFF;
constexpr size_t kMostSymbols = 1 << 30;  // entries have 32-bit indices, up to three entries per symbol
constexpr size_t kKeptSymbols = 1 << 20;  // larger scratch memory is released

}  // namespace

uint32_t MergeQueue::rank_at(uint32_t place) const {
  const uint32_t after = next_[place];
  return after == kNone ? kNoRank : tables_.rank_of(symbols_[place], symbols_[after]);
}

void MergeQueue::wait(uint32_t place, uint32_t rank) {
  ranks_[place] = rank;
  if (rank == kNoRank) return;
  if (has_bucket_ && rank <= bucket_rank_) {
    early_.push({rank, place});
    return;
  }
  uint32_t& head = heads_[rank];
  if (head == kNone) {
    bits_[rank / 64] |= uint64_t{1} << rank % 64;
    upper_bits_[rank / 4096] |= uint64_t{1} << rank / 64 % 64;
  }
  entries_.push_back({place, head});
  head = static_cast<uint32_t>(entries_.size() - 1);
}

void MergeQueue::start(std::span<const uint32_t> symbols) {
  if (symbols.size() > kMostSymbols)
    throw user_error(fmt::format("a piece of {} symbols is too long to encode", symbols.size()),
                     "it has no word boundaries", "split the document");
  const auto n = static_cast<uint32_t>(symbols.size());
  if (heads_.empty()) {
    heads_.assign(tables_.num_ranks, kNone);
    bits_.assign(tables_.num_ranks / 64 + 1, 0);
    upper_bits_.assign(bits_.size() / 64 + 1, 0);
  }
  symbols_.assign(symbols.begin(), symbols.end());
  next_.resize(n);
  previous_.resize(n);
  ranks_.resize(n);
  entries_.clear();
  has_bucket_ = false;
  for (uint32_t i = 0; i < n; ++i) {
    next_[i] = i + 1 < n ? i + 1 : kNone;
    previous_[i] = i == 0 ? kNone : i - 1;
  }
  for (uint32_t i = 0; i < n; ++i) {
    const bool same = i >= 2 && i + 1 < n && symbols[i] == symbols[i - 2] && symbols[i + 1] == symbols[i - 1];
    wait(i, same ? ranks_[i - 2] : rank_at(i));
  }
}

// Takes the lowest non-empty bucket; false if all are empty.
bool MergeQueue::take_bucket() {
  has_bucket_ = false;
  for (size_t u = 0; u < upper_bits_.size(); ++u) {
    if (upper_bits_[u] == 0) continue;
    const size_t word = u * 64 + static_cast<size_t>(std::countr_zero(upper_bits_[u]));
    const auto rank = static_cast<uint32_t>(word * 64 + static_cast<size_t>(std::countr_zero(bits_[word])));
    bits_[word] &= bits_[word] - 1;
    if (bits_[word] == 0) upper_bits_[u] &= upper_bits_[u] - 1;
    bucket_.clear();
    for (uint32_t e = heads_[rank]; e != kNone; e = entries_[e].next) bucket_.push_back(entries_[e].place);
    heads_[rank] = kNone;
    std::reverse(bucket_.begin(), bucket_.end());  // in the order of insertion, which is usually left to right
    if (!std::is_sorted(bucket_.begin(), bucket_.end())) std::sort(bucket_.begin(), bucket_.end());
    bucket_next_ = 0;
    bucket_rank_ = rank;
    has_bucket_ = true;
    return true;
  }
  return false;
}

// Merges the pair at `place`, if the pair there still has that rank.
void MergeQueue::merge_at(uint32_t place, uint32_t rank) {
  if (ranks_[place] != rank) return;
  const uint32_t eaten = next_[place];
  const uint32_t after = next_[eaten];
  ranks_[eaten] = kNoRank;
  symbols_[place] = tables_.result(rank);
  next_[place] = after;
  if (after != kNone) previous_[after] = place;
  const uint32_t before = previous_[place];
  if (before != kNone) wait(before, rank_at(before));
  wait(place, rank_at(place));
}

void MergeQueue::merge(std::span<const uint32_t> symbols, std::vector<uint32_t>& ids) {
  if (symbols.empty()) return;
  start(symbols);
  while (true) {
    const bool bucket_left = has_bucket_ && bucket_next_ < bucket_.size();
    if (!early_.empty() && (!bucket_left || Waiting{bucket_rank_, bucket_[bucket_next_]} > early_.top())) {
      const Waiting first = early_.top();
      early_.pop();
      merge_at(first.place, first.rank);
    } else if (bucket_left) {
      merge_at(bucket_[bucket_next_++], bucket_rank_);
    } else if (!take_bucket()) {
      break;
    }
  }
  for (uint32_t i = 0; i != kNone; i = next_[i]) ids.push_back(symbols_[i]);
  release_if_large();
}

void MergeQueue::release_if_large() {
  if (symbols_.capacity() <= kKeptSymbols) return;
  for (std::vector<uint32_t>* scratch : {&symbols_, &next_, &previous_, &ranks_, &bucket_}) *scratch = {};
  entries_ = {};
}

}  // namespace hearth::tokenizer
