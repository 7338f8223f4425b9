// What of a sequence is predicted, and what the model sees of it: an objective as the loader obeys it.
#pragma once

#include <cstdint>
#include <optional>
#include <span>

#include "config/config.h"
#include "data/batch/masking.h"
#include "tokenizer/tokenizer.h"

namespace hearth::data {

struct LabelRule {
  std::optional<Masking> masking{};  // labels are hidden tokens; none: they are the next tokens
  int32_t uncounted_token = -1;      // predicting it does not count; -1: none

  // The labels of sample `g`, which come as the next tokens, and with masking the tokens themselves. `weights`: of the
  // labels; a label of weight 0 does not count, and with masking is not hidden. Empty: all 1.
  void apply(uint64_t seed, uint64_t g, std::span<int32_t> tokens, std::span<int32_t> labels,
             std::span<const float> weights = {}) const;
};

// The rule that [objective] asks for, with data of this tokenizer and a model whose embedding has `rows` rows. Throws
// user_error where they do not go together.
LabelRule label_rule(const config::Objective& objective, const tokenizer::Tokenizer& tokenizer, int64_t rows);

}  // namespace hearth::data
