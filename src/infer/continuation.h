// SPDX-License-Identifier: Apache-2.0
// How likely a model finds given continuations of given texts: what multiple-choice tasks are scored with.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "infer/loaded_model.h"

namespace hearth::infer {

// Text whose last part, the continuation, is scored.
struct Continuation {
  std::string context, continuation;
};

struct ContinuationTokens {
  std::vector<int32_t> ids;  // tokens of both parts
  int64_t scored = 0;        // number of tokens at the end that are the continuation
};

struct LogLikelihood {
  double sum = 0;  // sum of the tokens' natural log-probabilities
  int64_t tokens = 0;
  bool is_greedy = false;  // each token was the most likely one
};

// The tokens as lm-evaluation-harness 0.4.13 has them (lm_eval/api/model.py, TemplateLM._encode_pair). White space at
// the end of the context counts as the continuation's. The context is encoded alone, and then both parts together. If
// the context has n tokens, the continuation's are all tokens of both parts after the first n. Special tokens may be
// spelled out. BOS comes first if the model's documents began with it and the text does not spell it. An empty context
// becomes BOS, or EOS if there is no BOS. Throws user_error if the continuation has no tokens of its own, or more than
// the model's window has.
ContinuationTokens tokens_of(const LoadedModel& model, tokenizer::Encoder& encoder, const Continuation& text);

// One result for each text. Texts that are longer than the model's window lose their first tokens. `batch_size`
// sequences are computed at a time; equal inputs are computed once.
std::vector<LogLikelihood> log_likelihoods(LoadedModel& model, std::span<const ContinuationTokens> texts,
                                           int64_t batch_size);

}  // namespace hearth::infer
