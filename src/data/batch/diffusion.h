// SPDX-License-Identifier: Apache-2.0
// Masked diffusion: each sequence hides its tokens at a random rate, and the model predicts the hidden ones from both
// sides. Source: LLaDA, arXiv 2502.09992, equations 3 and 6, and ML-GSAI/LLaDA's GUIDELINES.md.
//
// Training: a sequence's t is uniform in 0 to 1, and each token is hidden with the probability p = (1 - eps) t + eps. A
// hidden token's loss has the weight 1 / p, and the mean is over all tokens, hidden or not. EOS is a token like others.
// The evidence bound has less variance: a draw hides l of a sequence's L tokens, l uniform in 1 to L, and their losses
// have the weight L / l. A sequence is a row, or a document where attention is limited to documents.
//
// All of it depends only on (seed, g, position), so it is the same for any number of ranks and threads.
#pragma once

#include <cstdint>
#include <span>

#include "config/config.h"
#include "tokenizer/tokenizer.h"

namespace hearth::data {

struct Diffusion {
  double eps = 1e-3;
  double random_length_prob = 0.01;  // that a sample of the training is cut to a random length
  int32_t mask_id = 0;
  bool per_document = false;  // each document of a row is a sequence
  // Logits predict the next token, as a causal model's: labels stand one position earlier than their tokens. So the
  // first token of a sequence is never hidden, and does not count.
  bool shifted = false;
  // > 0: for the evidence bound, so many draws of each sample. Row g is draw number g % draws of sample g / draws.
  int64_t draws = 0;

  // Rows of a sample.
  uint64_t rows() const { return draws > 0 ? static_cast<uint64_t>(draws) : 1; }
};

// The diffusion of [objective]. Throws user_error if the mask is no token, or is neither given nor known.
Diffusion diffusion_of(const config::Objective& objective, config::AttentionScope scope,
                       const tokenizer::Tokenizer& tokenizer, int64_t rows);

// The number of tokens that row `g` keeps of its `length`: mostly all; the bound keeps all.
size_t kept_length(const Diffusion& diffusion, uint64_t seed, uint64_t g, size_t length);

// A row. Spans other than document_starts have an entry for each token.
struct DiffusionRow {
  std::span<const int32_t> document_starts;  // ascending; the first token's may be missing
  std::span<int32_t> tokens;                 // hidden ones become the mask
  std::span<int32_t> labels;                 // only written: hidden tokens, kIgnore elsewhere
  std::span<float> weights;                  // before: of each token; after: of each label's loss
  std::span<int32_t> counted;                // only written: tokens that may be hidden, kIgnore elsewhere
};

// Hides tokens of row `g`. A token of weight 0 is not hidden, and does not count.
void diffuse_row(const Diffusion& diffusion, uint64_t seed, uint64_t g, const DiffusionRow& row);

}  // namespace hearth::data
