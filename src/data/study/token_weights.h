// Weights of the loss by the token that is predicted: rare tokens weigh more, up to a cap.
#pragma once

#include <cstdint>
#include <vector>

#include "base/file.h"
#include "data/shard/dataset.h"
#include "data/study/stats.h"

namespace hearth::data {

// For each id 1 / p(id), p its share of the split's tokens; at most that of id `cap_id`, which is also what ids have
// that do not occur. BOS of a stream of arrays is not counted and weighs 1. Where cap_id does not occur, the largest id
// below it that does is meant. Throws user_error where none occurs.
//
// Source: the neural-data repositories' token weights, which give ids above 10 the weight of 10, and BOS too: so the
// one token that is certain outweighs all others.
std::vector<float> token_weights(const SplitStats& stats, const tokenizer::Tokenizer& tokenizer, int64_t cap_id);

// A .npy file of one number an id; what weighs 0 does not count. Throws user_error where it has not vocab_size numbers
// (0: not known) and where one is negative or not finite, or all are 0, or Errors with both.
std::vector<float> read_token_weights(const Path& path, int64_t vocab_size);

}  // namespace hearth::data
