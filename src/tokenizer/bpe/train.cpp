// SPDX-License-Identifier: Apache-2.0
#include "tokenizer/bpe/train.h"

#include <algorithm>
#include <queue>
#include <set>

#include "base/error.h"
#include "tokenizer/bpe/pair.h"
#include "tokenizer/unicode/byte_alphabet.h"

namespace hearth::tokenizer {
namespace {

constexpr int64_t kNumBytes = 256;

struct PairHash {
  size_t operator()(Pair pair) const { return (pair ^ pair >> 29) * 0x9E3779B97F4A7C15; }
};

struct PairState {
  int64_t count = 0;
  std::vector<uint32_t> words;  // that contain or contained the pair; a word may appear twice
};

struct Candidate {
  int64_t count;
  Pair pair;
  // The best candidate is the largest.
  bool operator<(const Candidate& o) const { return count != o.count ? count < o.count : pair > o.pair; }
};

void check_special_tokens(const std::vector<std::string>& special) {
  std::set<std::string> seen;
  for (const std::string& text : special) {
    const auto bytes = bytes_of_alphabet(text);
    const bool is_byte = bytes && bytes->size() == 1;
    if (text.empty() || is_byte || !seen.insert(text).second)
      throw user_error(fmt::format("special token \"{}\"", text),
                       text.empty() ? "it is empty" : (is_byte ? "it is spelled like a byte" : "it is given twice"),
                       "give each special token a name of its own, such as <|end_of_text|>");
  }
}

class Trainer {
 public:
  Trainer(const PieceCounts& counts, const BpeTraining& training) : training_(training) {
    result_.training = training;
    result_.tokens = training.special_tokens;
    add_bytes();
    for (const auto& [piece, count] : counts.sorted()) add_word(piece, count);
    for (const auto& [pair, state] : pairs_) candidates_.push({state.count, pair});
  }

  TrainedBpe run(std::atomic<int64_t>* merges_done) {
    while (static_cast<int64_t>(result_.tokens.size()) < training_.vocab_size && !candidates_.empty()) {
      const Candidate best = candidates_.top();
      candidates_.pop();
      const int64_t count = pairs_.at(best.pair).count;
      if (count != best.count) {  // other merges removed some occurrences
        if (count > 0) candidates_.push({count, best.pair});
        continue;
      }
      if (count < std::max<int64_t>(training_.min_frequency, 1)) break;
      if (spells_special_token(best.pair)) continue;  // no text may produce it
      merge(best.pair);
      if (merges_done != nullptr) ++*merges_done;
    }
    return std::move(result_);
  }

 private:
  struct Word {
    size_t begin, size;  // in symbols_
    int64_t count;
  };

  // Ids in the order of the characters that spell them, as Hugging Face sorts its alphabet.
  void add_bytes() {
    std::vector<std::pair<std::string, unsigned char>> alphabet;
    for (int64_t byte = 0; byte < kNumBytes; ++byte)
      alphabet.emplace_back(alphabet_of_bytes(std::string(1, static_cast<char>(byte))),
                            static_cast<unsigned char>(byte));
    std::sort(alphabet.begin(), alphabet.end());
    byte_ids_.resize(kNumBytes);
    for (const auto& [spelling, byte] : alphabet) {
      byte_ids_[byte] = static_cast<uint32_t>(result_.tokens.size());
      add_token(std::string(1, static_cast<char>(byte)));
    }
  }

  uint32_t add_token(std::string bytes) {
    const auto id = static_cast<uint32_t>(result_.tokens.size());
    ids_.emplace(bytes, id);
    result_.tokens.push_back(std::move(bytes));
    return id;
  }

  void add_word(std::string_view piece, int64_t count) {
    const auto word = static_cast<uint32_t>(words_.size());
    words_.push_back({symbols_.size(), piece.size(), count});
    for (const char c : piece) symbols_.push_back(byte_ids_[static_cast<unsigned char>(c)]);
    const uint32_t* symbols = symbols_.data() + words_.back().begin;
    for (size_t i = 0; i + 1 < piece.size(); ++i) change(pair_of(symbols[i], symbols[i + 1]), count, word);
  }

  void change(Pair pair, int64_t by, uint32_t word) {
    PairState& state = pairs_[pair];
    state.count += by;
    if (by > 0 && (state.words.empty() || state.words.back() != word)) state.words.push_back(word);
  }

  bool spells_special_token(Pair pair) const {
    const std::vector<std::string>& special = training_.special_tokens;
    const std::string text = alphabet_of_bytes(result_.tokens[left_of(pair)] + result_.tokens[right_of(pair)]);
    return std::find(special.begin(), special.end(), text) != special.end();
  }

  void merge(Pair pair) {
    const uint32_t left = left_of(pair), right = right_of(pair);
    std::string bytes = result_.tokens[left] + result_.tokens[right];
    // If two merges give the same bytes, they give the same token.
    const auto known = ids_.find(bytes);
    const uint32_t id = known != ids_.end() ? known->second : add_token(std::move(bytes));
    result_.merges.push_back({left, right, id});

    const std::vector<uint32_t> words = std::move(pairs_[pair].words);
    grown_.clear();
    for (const uint32_t word : words) merge_in_word(word, left, right, id);
    pairs_[pair] = {};
    std::sort(grown_.begin(), grown_.end());
    grown_.erase(std::unique(grown_.begin(), grown_.end()), grown_.end());
    for (const Pair p : grown_)
      if (const int64_t count = pairs_[p].count; count > 0) candidates_.push({count, p});
  }

  // Merges from left to right. Updates the counts of the neighbouring pairs at once.
  void merge_in_word(uint32_t index, uint32_t left, uint32_t right, uint32_t id) {
    Word& word = words_[index];
    uint32_t* symbols = symbols_.data() + word.begin;
    const auto replace = [&](Pair old_pair, Pair new_pair) {
      change(old_pair, -word.count, index);
      change(new_pair, word.count, index);
      grown_.push_back(new_pair);
    };
    size_t to = 0;
    for (size_t from = 0; from < word.size;) {
      if (from + 1 >= word.size || symbols[from] != left || symbols[from + 1] != right) {
        symbols[to++] = symbols[from++];
        continue;
      }
      if (to > 0) replace(pair_of(symbols[to - 1], left), pair_of(symbols[to - 1], id));
      if (from + 2 < word.size) replace(pair_of(right, symbols[from + 2]), pair_of(id, symbols[from + 2]));
      symbols[to++] = id;
      from += 2;
    }
    word.size = to;
  }

  const BpeTraining& training_;
  TrainedBpe result_;
  std::vector<uint32_t> byte_ids_;                 // [256]
  std::unordered_map<std::string, uint32_t> ids_;  // of bytes and merges, not of special tokens
  std::vector<uint32_t> symbols_;                  // all words in sequence; each shrinks in place
  std::vector<Word> words_;
  std::unordered_map<Pair, PairState, PairHash> pairs_;
  std::priority_queue<Candidate> candidates_;
  std::vector<Pair> grown_;  // pairs whose count the current merge increased
};

}  // namespace

void PieceCounts::add(std::string_view piece, int64_t count) {
  const auto found = counts_.find(piece);
  if (found != counts_.end())
    found->second += count;
  else
    counts_.emplace(piece, count);
  bytes_ += count * static_cast<int64_t>(piece.size());
}

void PieceCounts::add(const PieceCounts& other) {
  for (const auto& [piece, count] : other.counts_) add(piece, count);
}

std::vector<std::pair<std::string_view, int64_t>> PieceCounts::sorted() const {
  std::vector<std::pair<std::string_view, int64_t>> all(counts_.begin(), counts_.end());
  std::sort(all.begin(), all.end());
  return all;
}

TrainedBpe train_bpe(const PieceCounts& counts, const BpeTraining& training, std::atomic<int64_t>* merges_done) {
  check_special_tokens(training.special_tokens);
  const int64_t least = kNumBytes + static_cast<int64_t>(training.special_tokens.size());
  if (training.vocab_size < least)
    throw user_error(
        fmt::format("a vocabulary of {} tokens is too small", training.vocab_size),
        fmt::format("{} bytes and {} special tokens need {}", kNumBytes, training.special_tokens.size(), least),
        fmt::format("give at least {}", least));
  return Trainer(counts, training).run(merges_done);
}

}  // namespace hearth::tokenizer
