// SPDX-License-Identifier: Apache-2.0
// A cache from short pieces of text to their ids, of fixed size, for one thread. A piece can be in one place only. A
// new piece replaces the one that was there.
#pragma once

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <string_view>
#include <vector>

#include "base/hash.h"

namespace hearth::tokenizer {

class PieceCache {
 public:
  // `num_entries`: a power of two, of 64 bytes each; 0: nothing is kept.
  explicit PieceCache(size_t num_entries) : entries_(num_entries) {}

  // Appends the piece's ids. If the piece is not in the cache, calls `encode(ids)`, which appends them.
  template <typename Encode>
  void append(std::string_view piece, std::vector<uint32_t>& ids, Encode encode) {
    if (entries_.empty() || piece.size() > kMaxBytes) return encode(ids);
    Entry& entry = entries_[xxh3_64(piece) & (entries_.size() - 1)];
    if (entry.size_bytes == piece.size() && std::memcmp(entry.text, piece.data(), piece.size()) == 0) {
      ids.insert(ids.end(), entry.ids, entry.ids + entry.num_ids);
      return;
    }
    const size_t before = ids.size();
    encode(ids);
    const size_t count = ids.size() - before;
    if (count > kMaxIds) return;
    entry.size_bytes = static_cast<uint8_t>(piece.size());
    entry.num_ids = static_cast<uint8_t>(count);
    std::memcpy(entry.text, piece.data(), piece.size());
    std::copy(ids.begin() + static_cast<ptrdiff_t>(before), ids.end(), entry.ids);
  }

 private:
  static constexpr size_t kMaxBytes = 26, kMaxIds = 9;
  struct Entry {  // one cache line
    uint8_t size_bytes = 0, num_ids = 0;
    char text[kMaxBytes];
    uint32_t ids[kMaxIds];
  };
  static_assert(sizeof(Entry) == 64);

  std::vector<Entry> entries_;
};

}  // namespace hearth::tokenizer
