// SPDX-License-Identifier: Apache-2.0
// The baseline: an interpolated Witten-Bell n-gram model over bytes (Witten & Bell, IEEE Trans. Inf. Theory 37(4),
// 1991).
//
//   P_n(c | h) = (count(hc) + T(h) * P_{n-1}(c | h')) / (count(h) + T(h)),   P_0 = 1/256
//
// h: the n - 1 bytes before c; h': h without its oldest byte; T(h): number of different bytes after h. An unseen
// context, or one that reaches over the document's start, falls back to P_{n-1}.
//
// There is no table of n-grams: the positions of both texts are sorted by their reversed context. Then every context is
// one run in each text, and one merge scores one order.
#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

#include "data/shard/dataset.h"

namespace hearth::data {

inline constexpr int64_t kMaxNgramOrder = 7;  // a context of six 9-bit symbols and the byte fit in 64 bits

struct NgramScores {
  std::vector<double> bits_per_byte;  // of orders 1, 2, ..., max_order
  int64_t train_bytes = 0;            // bytes counted; less than the split's if it is longer than max_train_bytes
  int64_t validation_bytes = 0;
};

// Documents are views of bytes. Takes 8 bytes of memory per byte of training text and 16 per byte of validation text.
// `max_order` is 1 .. kMaxNgramOrder (else user_error).
NgramScores score_ngrams(const std::vector<std::string_view>& train, const std::vector<std::string_view>& validation,
                         int64_t max_order);

// The same for splits of datasets with one tokenizer: all of `train` together, and `scored`. Special tokens are not
// text. Training text of more than max_train_bytes is thinned to about that size: whole documents, evenly spaced.
NgramScores score_ngrams(const std::vector<const Split*>& train, const Split& scored,
                         const tokenizer::Tokenizer& tokenizer, int64_t max_order,
                         int64_t max_train_bytes = int64_t{64} << 20);

}  // namespace hearth::data
