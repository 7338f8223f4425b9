// The baseline: an interpolated Witten-Bell n-gram model over bytes (Witten & Bell, IEEE Trans. Inf. Theory 37(4),
// 1991).
//
//   P_n(c | h) = (count(hc) + T(h) * P_{n-1}(c | h')) / (count(h) + T(h)),   P_0 = 1/256
//
// h: the n - 1 bytes before c; h': h without its oldest byte; T(h): how many different bytes followed h. A context that
// was never seen, or that would reach over the document's start, falls back to P_{n-1}.
//
// No table of n-grams is kept: the positions of both texts are sorted by their reversed context, so that every context
// is one run of each, and all orders are scored in one merge per order.
#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

#include "data/shard/dataset.h"

namespace hearth::data {

inline constexpr int64_t kMaxNgramOrder = 7;  // a context of six 9-bit symbols and the byte fit in 64 bits

struct NgramScores {
  std::vector<double> bits_per_byte;  // of orders 1, 2, ..., max_order
  int64_t train_bytes = 0;            // what was counted; less than the split where it is longer than max_train_bytes
  int64_t validation_bytes = 0;
};

// Documents as views of bytes. Takes 8 bytes of memory a byte of training text and 16 a byte of validation text.
// `max_order` is 1 .. kMaxNgramOrder (else user_error).
NgramScores score_ngrams(const std::vector<std::string_view>& train, const std::vector<std::string_view>& validation,
                         int64_t max_order);

// The same for splits of datasets of one tokenizer: `train`, all together, and `scored`. Special tokens are not text.
// More than max_train_bytes of training text are thinned to whole documents of at most that many, evenly spaced.
NgramScores score_ngrams(const std::vector<const Split*>& train, const Split& scored,
                         const tokenizer::Tokenizer& tokenizer, int64_t max_order,
                         int64_t max_train_bytes = int64_t{64} << 20);

}  // namespace hearth::data
