// SPDX-License-Identifier: Apache-2.0
// Masked language modelling: the hidden positions of a sequence, and the model's input there. The labels are the hidden
// tokens, at their own positions; all other positions do not count.
//
// Whether position p of sample g is hidden depends only on (seed, g, p). It is the same for any number of ranks and
// threads, and different each time a window comes again. Sources: BERT, arXiv 1810.04805, section 3.1; whole words from
// its code of 2019.
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
  // In a training of so many samples the probability is `first_probability` for the first one, and changes linearly.
  // samples = 0: it is always the same, as for held-out text.
  double first_probability = 0.3;
  uint64_t samples = 0;
  int32_t mask_id = 0;
  // The shares of hidden positions that show mask_id, and that show any id below vocab_size. The rest shows the true
  // token.
  double mask_share = 1, random_share = 0;
  int64_t vocab_size = 0;
  std::vector<bool> never{};  // by id: never hidden; empty: any may be
  // By id: whether the token's text begins, and ends, with a letter or a digit. A token that begins so is in the word
  // of a token before it that ends so, and the words are hidden whole. Empty: each token is chosen alone.
  struct WordEnds {
    bool begins = false, ends = false;
  };
  std::vector<WordEnds> words{};
  bool at_least_one = true;  // if chance hides nothing, one position is hidden
};

// The id of [objective]'s mask, any of the embedding's `rows` rows. Throws user_error if the mask is no token, or is
// neither given nor known.
int32_t mask_id_of(const config::Objective& objective, const tokenizer::Tokenizer& tokenizer, int64_t rows);

// The masking of [objective]. Throws the errors of mask_id_of.
Masking masking_of(const config::Objective& objective, const tokenizer::Tokenizer& tokenizer, int64_t rows);

// Masking::words of a tokenizer of text. Characters from U+0800 on, but Latin and Greek (U+1E00 to U+1FFF), are no
// letters here: Chinese has no spaces. Throws user_error for a tokenizer without text.
std::vector<Masking::WordEnds> word_ends(const tokenizer::Tokenizer& tokenizer, int64_t rows);

// By id, for an embedding of `rows` rows: true for special tokens, BOS and EOS, which are not text.
std::vector<bool> special_ids(const tokenizer::Tokenizer& tokenizer, int64_t rows);

// Hides positions of sample `g`: tokens[p] becomes the model's input, labels[p] the token or kIgnore. Both have the
// sequence's length, and so has `weights`, if it is not empty. A token of weight 0 is not hidden: nothing would be
// learned from it.
void mask_row(const Masking& masking, uint64_t seed, uint64_t g, std::span<int32_t> tokens, std::span<int32_t> labels,
              std::span<const float> weights = {});

}  // namespace hearth::data
