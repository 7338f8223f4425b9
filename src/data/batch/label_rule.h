// SPDX-License-Identifier: Apache-2.0
// Makes the labels of a sequence and the model's input, as the loader does for the run's objective.
#pragma once

#include <cstdint>
#include <optional>
#include <span>

#include "config/config.h"
#include "data/batch/diffusion.h"
#include "data/batch/masking.h"
#include "tokenizer/tokenizer.h"

namespace hearth::data {

struct LabelRule {
  // One of both: labels are hidden tokens; neither: they are the next tokens.
  std::optional<Masking> masking{};
  std::optional<Diffusion> diffusion{};  // diffuse_row() makes the labels, not apply()
  int32_t uncounted_token = -1;          // predicting it does not count; -1: no such token

  bool hides() const { return masking || diffusion; }
  // The rule for a loss on held-out text: with diffusion the evidence bound, from `mc_num` draws.
  LabelRule held_out(int64_t mc_num) const;

  // Applies the rule to sample `g`, whose labels are the next tokens on entry; masking also changes the tokens.
  // `weights`: the labels' weights. A label of weight 0 does not count, and masking never hides it. Empty: all 1.
  void apply(uint64_t seed, uint64_t g, std::span<int32_t> tokens, std::span<int32_t> labels,
             std::span<const float> weights = {}) const;
};

// The rule of [objective], for data of this tokenizer and a model whose embedding has `rows` rows, and whose attention
// has this scope. Throws user_error if they do not fit together.
LabelRule label_rule(const config::Objective& objective, config::AttentionScope scope,
                     const tokenizer::Tokenizer& tokenizer, int64_t rows);

}  // namespace hearth::data
