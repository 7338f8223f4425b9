// SPDX-License-Identifier: Apache-2.0
// Weights of the loss by predicted token: rare tokens weigh more, up to a cap.
#pragma once

#include <cstdint>
#include <vector>

#include "base/file.h"
#include "data/shard/dataset.h"
#include "data/study/stats.h"

namespace hearth::data {

// An id's weight is 1 / p, where p is its share of the split's tokens. No weight is above that of id `cap_id`, and ids
// that do not occur get that weight, too. If cap_id does not occur, the largest id below it that occurs takes its
// place. BOS of a stream of arrays is not counted and weighs 1. Throws user_error if no id up to cap_id occurs.
//
// Source: the neural-data repositories' token weights, which give ids above 10 the weight of 10. They give BOS that
// weight too, so the one certain token outweighs all others.
std::vector<float> token_weights(const SplitStats& stats, const tokenizer::Tokenizer& tokenizer, int64_t cap_id);

// Reads a .npy file of one number per id; a token of weight 0 does not count. Throws user_error for a wrong count of
// numbers (vocab_size 0: unknown), for a negative or not finite number, and if all are 0. Throws Errors if there are
// several problems.
std::vector<float> read_token_weights(const Path& path, int64_t vocab_size);

}  // namespace hearth::data
