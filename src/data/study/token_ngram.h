// SPDX-License-Identifier: Apache-2.0
// An n-gram model over tokens as a baseline for recordings. It adds one to every count. Source: the neural-data
// repositories' ngram.py.
#pragma once

#include <cstdint>
#include <vector>

#include "data/shard/dataset.h"

namespace hearth::data {

inline constexpr int64_t kMaxTokenNgramOrder = 16;

// Cross-entropies in nats per token of `test`, of models of orders 1 .. `order` that counted all of `train`: p(token |
// context) = (count + 1) / (context's count + vocab_size). Contexts end at documents, and the first order - 1 tokens of
// a document are not predicted. `uncounted_token` is part of contexts, but not of the mean; -1: no such token. Memory
// grows with the number of different n-grams of all orders. Throws user_error for an order above kMaxTokenNgramOrder.
std::vector<double> score_token_ngrams(const std::vector<const Split*>& train, const Split& test, int64_t order,
                                       int64_t vocab_size, int32_t uncounted_token);

}  // namespace hearth::data
