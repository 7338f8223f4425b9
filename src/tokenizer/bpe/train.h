// SPDX-License-Identifier: Apache-2.0
// Learns a byte-level BPE vocabulary from text, as Hugging Face's BpeTrainer does. Pairs of neighbouring tokens are
// counted over all pieces of the text. The most frequent pair becomes a new token; this repeats until the vocabulary is
// full.
//
//   PieceCounts counts;                                       one for each thread, then merged
//   for (piece of the text, by the pattern's cutter) counts.add(piece);
//   write_file_atomic(out, huggingface_file(train_bpe(counts, options)));
//
// Source of the method: Sennrich, Haddow, Birch, "Neural Machine Translation of Rare Words with Subword Units", ACL
// 2016. Among pairs of equal counts the smaller left id wins, then the smaller right id, as in `tokenizers`. So the
// result depends only on the counts, not on the order of texts or the number of threads.
#pragma once

#include <atomic>
#include <cstdint>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

#include "tokenizer/bpe/bpe.h"

namespace hearth::tokenizer {

// How often each piece occurs. Memory grows with the number of different pieces.
class PieceCounts {
 public:
  void add(std::string_view piece, int64_t count = 1);
  void add(const PieceCounts& other);
  size_t size() const { return counts_.size(); }
  int64_t bytes() const { return bytes_; }  // over all occurrences
  // Sorted by bytes. The views are valid until the next add().
  std::vector<std::pair<std::string_view, int64_t>> sorted() const;

 private:
  struct Hash {
    using is_transparent = void;
    size_t operator()(std::string_view text) const { return std::hash<std::string_view>()(text); }
  };
  std::unordered_map<std::string, int64_t, Hash, std::equal_to<>> counts_;
  int64_t bytes_ = 0;
};

struct BpeTraining {
  int64_t vocab_size = 0;                   // total number of ids: special tokens, the 256 bytes, one for each merge
  std::vector<std::string> special_tokens;  // the first ids, in this order; no text produces them
  std::string pattern;                      // the pattern that cut the pieces: pretokenizer.h
  int64_t min_frequency = 2;                // a pair that occurs less often is not merged
};

struct TrainedBpe {
  BpeTraining training;
  std::vector<std::string> tokens;  // the bytes of each id; for a special token its text
  std::vector<Merge> merges;        // in order of rank
};

// `merges_done`, for a progress bar in another thread, may be null. The result has fewer than vocab_size tokens if the
// text has too few pairs. Throws user_error if the vocabulary is too small for bytes and special tokens, or if a
// special token is empty, given twice, or spelled like a byte.
TrainedBpe train_bpe(const PieceCounts& counts, const BpeTraining& training, std::atomic<int64_t>* merges_done);

// The vocabulary as a tokenizer.json for `tokenizers` and this program.
std::string huggingface_file(const TrainedBpe& bpe);

}  // namespace hearth::tokenizer
