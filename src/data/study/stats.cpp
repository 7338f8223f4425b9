// SPDX-License-Identifier: Apache-2.0
#include "data/study/stats.h"

#include <algorithm>
#include <bit>
#include <memory>
#include <mutex>
#include <numeric>

#include "base/error.h"
#include "base/hash.h"
#include "base/parallel.h"
#include "base/quantity.h"

namespace hearth::data {
namespace {

constexpr int64_t kChunkDocuments = 1024;  // taken by a thread at a time
constexpr int64_t kPieceTokens = 1 << 16;  // of a document, read at a time

struct Document {
  uint64_t hash = 0;
  int64_t tokens = 0;
};

// Tables of counts, at most one per thread. A thread takes one, adds to it and gives it back.
class Counters {
 public:
  explicit Counters(int64_t vocab_size) : vocab_size_(vocab_size) {}

  using Table = std::vector<int64_t>;
  std::unique_ptr<Table> take() {
    const std::lock_guard lock(mutex_);
    if (free_.empty()) return std::make_unique<Table>(static_cast<size_t>(vocab_size_));
    auto table = std::move(free_.back());
    free_.pop_back();
    return table;
  }
  void give(std::unique_ptr<Table> table) {
    const std::lock_guard lock(mutex_);
    free_.push_back(std::move(table));
  }
  Table sum() const {
    Table sum(static_cast<size_t>(vocab_size_));
    for (const auto& table : free_) std::transform(sum.begin(), sum.end(), table->begin(), sum.begin(), std::plus<>());
    return sum;
  }

 private:
  const int64_t vocab_size_;
  std::mutex mutex_;
  std::vector<std::unique_ptr<Table>> free_;
};

Document read_document(const Split& split, int64_t number, std::vector<int32_t>& piece, Counters::Table& counts) {
  StreamingHash hash;
  const int64_t begin = split.document_begin(number), end = split.document_begin(number + 1);
  for (int64_t at = begin; at < end; at += kPieceTokens) {
    piece.resize(static_cast<size_t>(std::min(kPieceTokens, end - at)));
    split.read(at, piece);
    for (const int32_t id : piece) {
      if (static_cast<uint64_t>(static_cast<uint32_t>(id)) >= counts.size())
        throw damaged(fmt::format("document {} of split {} holds token {}", number, split.name(), id),
                      fmt::format("the vocabulary has {}", counts.size()), "build the dataset again");
      ++counts[static_cast<size_t>(id)];
    }
    hash.update(std::as_bytes(std::span(piece)));
  }
  return {hash.digest_64(), end - begin};
}

std::vector<Document> read_documents(const Split& split, int64_t vocab_size, int64_t threads, SplitStats& stats) {
  std::vector<Document> documents(static_cast<size_t>(split.documents()));
  Counters counters(vocab_size);
  for_each_index(div_ceil(split.documents(), kChunkDocuments), threads, [&](int64_t chunk) {
    auto counts = counters.take();
    std::vector<int32_t> piece;
    const int64_t end = std::min(split.documents(), (chunk + 1) * kChunkDocuments);
    for (int64_t number = chunk * kChunkDocuments; number < end; ++number)
      documents[static_cast<size_t>(number)] = read_document(split, number, piece, *counts);
    counters.give(std::move(counts));
  });
  stats.token_counts = counters.sum();
  return documents;
}

void count_lengths(const std::vector<Document>& documents, SplitStats& stats) {
  const auto [shortest, longest] = std::ranges::minmax_element(documents, {}, &Document::tokens);
  stats.shortest = shortest->tokens;
  stats.longest = longest->tokens;
  const auto bin_of = [](int64_t tokens) { return static_cast<int>(std::bit_width(static_cast<uint64_t>(tokens))); };
  const int first = bin_of(stats.shortest);
  for (int bin = first; bin <= bin_of(stats.longest); ++bin)
    stats.lengths.push_back({bin == 0 ? 0 : int64_t{1} << (bin - 1), bin == 0 ? 0 : (int64_t{1} << bin) - 1});
  for (const Document& document : documents) {
    LengthBin& bin = stats.lengths[static_cast<size_t>(bin_of(document.tokens) - first)];
    ++bin.documents;
    bin.tokens += document.tokens;
  }
}

// `earlier` has the sorted hashes of the splits before, and gets those of this split.
void count_duplicates(std::vector<Document> documents, std::vector<uint64_t>& earlier, SplitStats& stats) {
  std::ranges::sort(documents, {}, &Document::hash);
  std::vector<uint64_t> hashes;
  for (size_t i = 0; i < documents.size(); ++i) {
    const uint64_t hash = documents[i].hash;
    if (!hashes.empty() && hashes.back() == hash) {
      ++stats.duplicates;
      stats.duplicate_tokens += documents[i].tokens;
    } else {
      hashes.push_back(hash);
    }
    if (std::ranges::binary_search(earlier, hash)) ++stats.in_earlier_splits;
  }
  std::vector<uint64_t> merged;
  std::set_union(earlier.begin(), earlier.end(), hashes.begin(), hashes.end(), std::back_inserter(merged));
  earlier = std::move(merged);
}

}  // namespace

int64_t SplitStats::used_tokens() const {
  return std::ranges::count_if(token_counts, [](int64_t count) { return count > 0; });
}

std::vector<int64_t> SplitStats::most_frequent(int64_t count) const {
  std::vector<int64_t> ids(token_counts.size());
  std::iota(ids.begin(), ids.end(), int64_t{0});
  const auto count_of = [this](int64_t id) { return token_counts[static_cast<size_t>(id)]; };
  const auto end = ids.begin() + std::min<std::ptrdiff_t>(count, used_tokens());
  std::partial_sort(ids.begin(), end, ids.end(), [&](int64_t a, int64_t b) {
    return count_of(a) != count_of(b) ? count_of(a) > count_of(b) : a < b;
  });
  ids.erase(end, ids.end());
  return ids;
}

std::vector<SplitStats> dataset_stats(const Dataset& dataset, int64_t threads) {
  std::vector<SplitStats> all;
  std::vector<uint64_t> earlier;
  for (const SplitEntry& entry : dataset.manifest().splits) {
    if (!dataset.has_split(entry.name)) continue;
    const Split& split = dataset.split(entry.name);
    SplitStats& stats = all.emplace_back();
    stats.name = split.name();
    stats.documents = split.documents();
    stats.tokens = split.tokens();
    stats.text_bytes = split.text_bytes();
    stats.weights = split.weights();
    std::vector<Document> documents = read_documents(split, dataset.manifest().vocab_size, threads, stats);
    count_lengths(documents, stats);
    count_duplicates(std::move(documents), earlier, stats);
  }
  return all;
}

}  // namespace hearth::data
