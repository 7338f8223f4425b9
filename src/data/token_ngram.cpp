#include "data/token_ngram.h"

#include <bit>
#include <cmath>
#include <unordered_map>

#include "base/error.h"

namespace hearth::data {
namespace {

using Counts = std::unordered_map<uint64_t, uint32_t>;

// Calls visit(n-gram, token) for every n-gram of a document: its tokens in `bits` bits each, the last one lowest.
template <class Visit>
void for_each_ngram(const Split& split, int64_t order, int bits, const Visit& visit) {
  const uint64_t mask = order * bits == 64 ? ~uint64_t{0} : (uint64_t{1} << order * bits) - 1;
  std::vector<int32_t> tokens;
  for (int64_t document = 0; document < split.documents(); ++document) {
    const std::vector<int64_t> begins = split.document_begins(document, 2);
    tokens.resize(static_cast<size_t>(begins[1] - begins[0]));
    split.read(begins[0], tokens);
    uint64_t ngram = 0;
    for (size_t i = 0; i < tokens.size(); ++i) {
      ngram = (ngram << bits | static_cast<uint64_t>(tokens[i])) & mask;
      if (static_cast<int64_t>(i) + 1 >= order) visit(ngram, tokens[i]);
    }
  }
}

uint32_t count_of(const Counts& counts, uint64_t key) {
  const auto found = counts.find(key);
  return found == counts.end() ? 0 : found->second;
}

double score(const Split& train, const Split& test, int64_t order, int bits, int64_t vocab_size, int32_t uncounted) {
  Counts ngrams, contexts;
  for_each_ngram(train, order, bits, [&](uint64_t ngram, int32_t) {
    ++ngrams[ngram];
    ++contexts[ngram >> bits];
  });
  double nats = 0;
  int64_t count = 0;
  for_each_ngram(test, order, bits, [&](uint64_t ngram, int32_t token) {
    if (token == uncounted) return;
    const double seen = count_of(ngrams, ngram), context = count_of(contexts, ngram >> bits);
    nats -= std::log((seen + 1) / (context + static_cast<double>(vocab_size)));
    ++count;
  });
  if (count == 0)
    throw user_error(fmt::format("no document of split {} is {} tokens long", test.name(), order), {},
                     "give a smaller --ngram");
  return nats / static_cast<double>(count);
}

}  // namespace

std::vector<double> score_token_ngrams(const Split& train, const Split& test, int64_t order, int64_t vocab_size,
                                       int32_t uncounted_token) {
  const int bits = static_cast<int>(std::bit_width(static_cast<uint64_t>(vocab_size - 1)));
  if (order * bits > 64)
    throw user_error(fmt::format("--ngram {} is too long for a vocabulary of {}", order, vocab_size), {},
                     fmt::format("give {} at most", 64 / bits));
  std::vector<double> scores;
  for (int64_t n = 1; n <= order; ++n) scores.push_back(score(train, test, n, bits, vocab_size, uncounted_token));
  return scores;
}

}  // namespace hearth::data
