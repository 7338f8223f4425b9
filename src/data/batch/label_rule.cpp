// SPDX-License-Identifier: Apache-2.0
#include "data/batch/label_rule.h"

#include <algorithm>

#include "base/error.h"
#include "data/batch/batch.h"
#include "recordings/vocabulary.h"

namespace hearth::data {

void LabelRule::apply(uint64_t seed, uint64_t g, std::span<int32_t> tokens, std::span<int32_t> labels,
                      std::span<const float> weights) const {
  if (masking) mask_row(*masking, seed, g, tokens, labels, weights);
  for (size_t i = 0; i < weights.size(); ++i)
    if (weights[i] == 0) labels[i] = kIgnore;
  if (uncounted_token >= 0) std::replace(labels.begin(), labels.end(), uncounted_token, kIgnore);
}

LabelRule LabelRule::held_out(int64_t mc_num) const {
  LabelRule rule = *this;
  if (rule.diffusion) rule.diffusion->draws = mc_num;
  return rule;
}

LabelRule label_rule(const config::Objective& objective, config::AttentionScope scope,
                     const tokenizer::Tokenizer& tokenizer, int64_t rows) {
  LabelRule rule;
  if (objective.diffuses())
    rule.diffusion = diffusion_of(objective, scope, tokenizer, rows);
  else if (objective.masked())
    rule.masking = masking_of(objective, tokenizer, rows);
  if (objective.kind != config::ObjectiveKind::kSpikeLm) return rule;
  if (tokenizer.arrays() == nullptr)
    throw user_error("objective.kind = \"spike_lm\" needs recordings",
                     fmt::format("the data's tokenizer is {}, not one of spikes or patches", tokenizer.name()),
                     "build the data with --tokenizer spikes, or set objective.kind = \"causal_lm\"")
        .about("objective.kind");
  if (!objective.count_bos) rule.uncounted_token = static_cast<int32_t>(*tokenizer.bos());
  return rule;
}

}  // namespace hearth::data
