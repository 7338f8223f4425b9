// SPDX-License-Identifier: Apache-2.0
// From logits to the next token. A pure function of its arguments: the same numbers give the same text.
#pragma once

#include <cstdint>
#include <span>

namespace hearth::decode {

// The rules apply in this order, and each keeps a part of the tokens that the rules before it kept.
struct SamplingOptions {
  double temperature = 1;  // 0: always the most likely token
  int64_t top_k = 0;       // only the k most likely; 0: all
  double top_p = 1;        // the fewest of these whose probabilities sum to this
  double min_p = 0;        // drops tokens with less than this share of the largest probability
};

// `uniform` is a random number in [0, 1). Equal logits are ordered by id. Never picks an id at or past logits.size().
// NaN counts as less than all other logits.
int64_t sample_token(std::span<const double> logits, const SamplingOptions& options, double uniform);

// The probability of the most likely token, and of token `id`.
double certainty(std::span<const double> logits);
double probability(std::span<const double> logits, int64_t id);

}  // namespace hearth::decode
