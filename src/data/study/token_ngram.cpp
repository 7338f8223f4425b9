// SPDX-License-Identifier: Apache-2.0
#include "data/study/token_ngram.h"

#include <algorithm>
#include <cmath>
#include <unordered_map>

#include "base/error.h"

namespace hearth::data {
namespace {

template <class Visit>
void for_each_document(const Split& split, const Visit& visit) {
  std::vector<int32_t> tokens;
  for (int64_t document = 0; document < split.documents(); ++document) {
    const std::vector<int64_t> begins = split.document_begins(document, 2);
    tokens.resize(static_cast<size_t>(begins[1] - begins[0]));
    split.read(begins[0], tokens);
    visit(tokens);
  }
}

// A node is a run of up to `order` tokens of a document. Its parent is the run without its last token.
class Trie {
 public:
  Trie(const std::vector<const Split*>& splits, int64_t order) {
    for (const Split* split : splits)
      for_each_document(*split, [&](const std::vector<int32_t>& tokens) { count(tokens, order); });
  }

  struct Counts {
    double seen, context;  // of the run; of the run without its last token, if another one follows
  };
  Counts counts(const int32_t* begin, const int32_t* end) const {
    uint32_t node = 0;
    double context = 0;
    for (const int32_t* token = begin; token != end; ++token) {
      context = nodes_[node].followed;
      const auto found = children_.find(key(node, *token));
      if (found == children_.end()) return {0, token + 1 == end ? context : 0};
      node = found->second;
    }
    return {static_cast<double>(nodes_[node].seen), context};
  }

 private:
  struct Node {
    uint32_t seen = 0, followed = 0;
  };

  void count(const std::vector<int32_t>& tokens, int64_t order) {
    for (size_t begin = 0; begin < tokens.size(); ++begin) {
      uint32_t node = 0;
      for (size_t i = begin; i < std::min(tokens.size(), begin + static_cast<size_t>(order)); ++i) {
        ++nodes_[node].followed;
        node = child(node, tokens[i]);
        ++nodes_[node].seen;
      }
    }
  }

  static uint64_t key(uint32_t node, int32_t token) { return uint64_t{node} << 32 | static_cast<uint32_t>(token); }
  uint32_t child(uint32_t node, int32_t token) {
    const auto [found, is_new] = children_.try_emplace(key(node, token), static_cast<uint32_t>(nodes_.size()));
    if (is_new) nodes_.emplace_back();
    return found->second;
  }

  std::vector<Node> nodes_{1};  // the first is the empty run
  std::unordered_map<uint64_t, uint32_t> children_;
};

double score(const Trie& trained, const Split& test, int64_t order, int64_t vocab_size, int32_t uncounted) {
  double nats = 0;
  int64_t count = 0;
  for_each_document(test, [&](const std::vector<int32_t>& tokens) {
    const int32_t* first = tokens.data();
    for (int64_t end = order; end <= static_cast<int64_t>(tokens.size()); ++end) {
      if (first[end - 1] == uncounted) continue;
      const Trie::Counts counts = trained.counts(first + end - order, first + end);
      nats -= std::log((counts.seen + 1) / (counts.context + static_cast<double>(vocab_size)));
      ++count;
    }
  });
  if (count == 0)
    throw user_error(fmt::format("no document of split {} is {} tokens long", test.name(), order), {},
                     "give a smaller --ngram");
  return nats / static_cast<double>(count);
}

}  // namespace

std::vector<double> score_token_ngrams(const std::vector<const Split*>& train, const Split& test, int64_t order,
                                       int64_t vocab_size, int32_t uncounted_token) {
  if (order < 1 || order > kMaxTokenNgramOrder)
    throw user_error(fmt::format("an n-gram model of order {}", order),
                     fmt::format("1 to {} are possible", kMaxTokenNgramOrder));
  const Trie trained(train, order);
  std::vector<double> scores;
  for (int64_t n = 1; n <= order; ++n) scores.push_back(score(trained, test, n, vocab_size, uncounted_token));
  return scores;
}

}  // namespace hearth::data
