// SPDX-License-Identifier: Apache-2.0
// What a model of masked_diffusion says about likelihoods: bounds from random draws of hidden tokens
// (data/batch/diffusion.h).
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "config/options.h"
#include "infer/continuation.h"
#include "infer/loaded_model.h"

namespace hearth::infer {

// --mc-num, or the usual number. Throws user_error if it is given for a model of another objective.
int64_t draws_of(const LoadedModel& model, const config::EvalOptions& options);

struct BoundRules {
  int64_t draws = 128;
  uint64_t seed = 0;
  int64_t batch_size = 8;  // draws at a time
};

// A lower bound of each continuation's log-likelihood, the mean over the draws; tokens of the context are never hidden.
// Texts that are longer than the model's window lose their first tokens. is_greedy is false. The bound depends on the
// text's place in `texts`, not on the batch size. Throws user_error if a model with shifted logits has no token before
// a continuation.
std::vector<LogLikelihood> log_likelihood_bounds(LoadedModel& model, std::span<const ContinuationTokens> texts,
                                                 const BoundRules& rules);

}  // namespace hearth::infer
