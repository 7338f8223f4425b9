// SPDX-License-Identifier: Apache-2.0
#include "data/study/ngram.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <memory>
#include <string>

#include "base/error.h"
#include "tokenizer/tokenizer.h"

namespace hearth::data {
namespace {

// A position as a number that sorts by reversed context: six symbols of 9 bits, nearest byte first, then the byte
// itself. A symbol is byte + 1; 0 means "before the document".
constexpr int kSymbolBits = 9, kContext = static_cast<int>(kMaxNgramOrder) - 1;

struct Position {
  uint64_t key;
  double probability;  // of the highest order so far
};

template <typename Put>
void for_each_key(std::string_view document, Put put) {
  constexpr uint64_t kContextMask = (uint64_t{1} << kSymbolBits * kContext) - 1;
  uint64_t context = 0;  // newest symbol highest
  for (const char c : document) {
    const auto byte = static_cast<uint8_t>(c);
    put(context << 8 | byte);
    context = (context >> kSymbolBits | (byte + uint64_t{1}) << kSymbolBits * (kContext - 1)) & kContextMask;
  }
}

// The part of a key that order `order` sees: the context's order - 1 newest symbols.
struct ContextOf {
  int shift;
  explicit ContextOf(int64_t order) : shift(8 + kSymbolBits * (kContext - static_cast<int>(order) + 1)) {}
  // shift reaches 62 at most: never 64.
  uint64_t operator()(uint64_t key) const { return key >> shift; }
  // Whether the context would reach before the document: its oldest symbol is 0.
  static bool too_short(uint64_t context, int64_t order) {
    return order > 1 && (context & ((uint64_t{1} << kSymbolBits) - 1)) == 0;
  }
};

// One order: walks the runs of equal context in both texts together, and raises every probability by one order. Returns
// the sum of bits over the validation text.
double raise_order(const std::vector<uint64_t>& train, std::vector<Position>& validation, int64_t order) {
  const ContextOf context_of(order);
  std::array<uint32_t, 256> counts{};
  double bits = 0;
  size_t t = 0;
  for (size_t v = 0; v < validation.size();) {
    const uint64_t context = context_of(validation[v].key);
    while (t < train.size() && context_of(train[t]) < context) ++t;
    double total = 0, kinds = 0;
    const size_t run = t;
    if (!ContextOf::too_short(context, order)) {
      for (; t < train.size() && context_of(train[t]) == context; ++t) {
        if (counts[train[t] & 0xFF]++ == 0) ++kinds;
        ++total;
      }
    }
    for (; v < validation.size() && context_of(validation[v].key) == context; ++v) {
      Position& position = validation[v];
      if (total > 0)
        position.probability = (counts[position.key & 0xFF] + kinds * position.probability) / (total + kinds);
      bits -= std::log2(position.probability);
    }
    for (size_t i = run; i < t; ++i) counts[train[i] & 0xFF] = 0;
  }
  return bits;
}

// Appends the text of the documents that keep() accepts, without special tokens. It is called once per document, in
// order.
template <typename Keep>
void read_documents(const Split& split, const tokenizer::Tokenizer& tokenizer, Keep keep,
                    std::vector<std::string>& documents) {
  std::vector<int32_t> ids;
  for (int64_t i = 0; i < split.documents(); ++i) {
    if (!keep()) continue;
    const int64_t begin = split.document_begin(i);
    ids.resize(static_cast<size_t>(split.document_begin(i + 1) - begin));
    split.read(begin, ids);
    std::string& text = documents.emplace_back();
    for (const int32_t id : ids) tokenizer.decode(static_cast<uint32_t>(id), text);
  }
}

}  // namespace

NgramScores score_ngrams(const std::vector<std::string_view>& train, const std::vector<std::string_view>& validation,
                         int64_t max_order) {
  if (max_order < 1 || max_order > kMaxNgramOrder)
    throw user_error(fmt::format("an n-gram model of order {}", max_order),
                     fmt::format("1 to {} are possible", kMaxNgramOrder));
  const auto size_of = [](const std::vector<std::string_view>& documents) {
    size_t size = 0;
    for (const std::string_view document : documents) size += document.size();
    return size;
  };
  std::vector<uint64_t> train_keys;
  std::vector<Position> positions;
  train_keys.reserve(size_of(train));
  positions.reserve(size_of(validation));
  for (const std::string_view document : train)
    for_each_key(document, [&](uint64_t key) { train_keys.push_back(key); });
  for (const std::string_view document : validation)
    for_each_key(document, [&](uint64_t key) { positions.push_back({key, 1.0 / 256}); });
  std::ranges::sort(train_keys);
  std::ranges::sort(positions, {}, &Position::key);

  NgramScores scores;
  scores.train_bytes = static_cast<int64_t>(train_keys.size());
  scores.validation_bytes = static_cast<int64_t>(positions.size());
  for (int64_t order = 1; order <= max_order; ++order)
    scores.bits_per_byte.push_back(raise_order(train_keys, positions, order) /
                                   static_cast<double>(std::max<int64_t>(scores.validation_bytes, 1)));
  return scores;
}

NgramScores score_ngrams(const std::vector<const Split*>& train, const Split& scored,
                         const tokenizer::Tokenizer& tokenizer, int64_t max_order, int64_t max_train_bytes) {
  int64_t train_bytes = 0, document = 0;
  for (const Split* split : train) train_bytes += split->text_bytes();
  const double share = std::min(1.0, static_cast<double>(max_train_bytes) / static_cast<double>(train_bytes));
  // Document i is kept when i * share passes a whole number: documents are evenly spaced.
  const auto keep = [&] {
    const auto i = static_cast<double>(document++);
    return share >= 1 || std::floor((i + 1) * share) > std::floor(i * share);
  };
  std::vector<std::string> train_text, scored_text;
  for (const Split* split : train) read_documents(*split, tokenizer, keep, train_text);
  read_documents(
      scored, tokenizer, [] { return true; }, scored_text);
  return score_ngrams({train_text.begin(), train_text.end()}, {scored_text.begin(), scored_text.end()}, max_order);
}

}  // namespace hearth::data
