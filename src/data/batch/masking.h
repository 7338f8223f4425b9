// Masked language modelling: which positions of a sequence are hidden, and what the model sees there. The labels are
// the hidden tokens themselves, each at its own place; all other positions do not count.
//
// Whether position p of sample g is hidden is a function of (seed, g, p) alone: the same for any number of ranks and
// threads, and another one each time a window comes round. Source: BERT, arXiv 1810.04805, section 3.1.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "config/config.h"
#include "tokenizer/tokenizer.h"

namespace hearth::data {

struct Masking {
  double probability = 0.3;  // that a position is hidden
  int32_t mask_id = 0;
  // The share of hidden positions that show mask_id, and the share that show any id below vocab_size. The rest shows
  // the true token.
  double mask_share = 1, random_share = 0;
  int64_t vocab_size = 0;
  std::vector<bool> never{};  // by id: is not hidden; empty: any may be
  bool at_least_one = true;   // where chance hides nothing, one position is hidden
};

// What [objective] asks for; mask_id may be any of the embedding's `rows` rows.
// Throws user_error where the mask is no token, or none is known.
Masking masking_of(const config::Objective& objective, const tokenizer::Tokenizer& tokenizer, int64_t rows);

// By id, for an embedding of `rows` rows: true for special tokens, BOS and EOS, which stand for no text.
std::vector<bool> special_ids(const tokenizer::Tokenizer& tokenizer, int64_t rows);

// Hides positions of sample `g`: tokens[p] becomes what the model sees, labels[p] the token or kIgnore. Both have the
// sequence's length, and so has `weights`, if it is not empty: what weighs 0 is not hidden, since nothing would be
// learned from it.
void mask_row(const Masking& masking, uint64_t seed, uint64_t g, std::span<int32_t> tokens, std::span<int32_t> labels,
              std::span<const float> weights = {});

}  // namespace hearth::data
