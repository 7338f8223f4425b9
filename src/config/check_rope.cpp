// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>

#include <algorithm>

#include "base/quantity.h"
#include "config/derived.h"
#include "config/rules.h"

namespace hearth::config {
namespace {

void check_factors(Rules& rules, std::string_view key, const Numbers& factors, int64_t pairs) {
  rules.require(std::ssize(factors) == pairs, {key, "model.rope_type"},
                fmt::format("{} has {}, and {} of a head rotate", key, counted(std::ssize(factors), "factor"),
                            counted(pairs, "pair")),
                "give one factor for each pair, as rope_scaling of the model's config.json has them");
}

void check_scaling(Rules& rules, const Model& m, int64_t rotary) {
  rules.require(m.rope_low_freq_factor < m.rope_high_freq_factor, "model.rope_high_freq_factor", "is not above",
                "model.rope_low_freq_factor", "Llama 3.1 has 4 and 1");
  rules.require(m.rope_beta_slow < m.rope_beta_fast, "model.rope_beta_fast", "is not above", "model.rope_beta_slow",
                "YaRN has 32 and 1");
  const bool scales = m.rope_type != RopeType::kLlama3 && m.rope_type != RopeType::kDefault;
  rules.require(
      !scales || m.rope_scaling_factor != 1, {"model.rope_type", "model.rope_scaling_factor"},
      fmt::format("model.rope_type = \"{}\" has no effect with model.rope_scaling_factor = 1", name_of(m.rope_type)),
      "give model.rope_scaling_factor: the longest sequence divided by the original one; or remove it");
  rules.require(m.rope_type != RopeType::kYarn || m.rope_theta > 1, "model.rope_theta", "does not go with",
                "model.rope_type", "YaRN divides by its logarithm: give a larger base");
  if (m.rope_type != RopeType::kLongRope) return;
  check_factors(rules, "model.rope_short_factor", m.rope_short_factor, rotary / 2);
  check_factors(rules, "model.rope_long_factor", m.rope_long_factor, rotary / 2);
  rules.require(m.rope_original_seq_len > 1, "model.rope_original_seq_len", "does not go with", "model.rope_type",
                "longrope divides by its logarithm: give the length that the model was first trained on");
}

// Such samples are computed over padded rows, whose length would bring the long factors too early.
void check_samples(Rules& rules, const RunConfig& c) {
  const Model& m = c.model;
  const bool can_be_long = m.rope_type == RopeType::kLongRope && c.training.seq_len > m.rope_original_seq_len;
  const bool is_cached =
      !c.objective.masked() && c.parallelism.tensor_parallel_degree == 1 && c.parallelism.pipeline_parallel_degree == 1;
  rules.require(
      !can_be_long || is_cached || c.validation.generate.empty(), {"validation.generate", "model.rope_type"},
      "validation.generate does not go with model.rope_type = \"longrope\" here",
      "remove it: only causal models without tensor and pipeline parallel keep to the factors of each length");
}

}  // namespace

void check_rope(Rules& rules, const RunConfig& config) {
  const Model& m = config.model;
  const int64_t rotary = rotary_width(m);
  rules.require(m.partial_rotary_factor == 1 || (rotary > 0 && rotary % 2 == 0), {"model.partial_rotary_factor"},
                fmt::format("model.partial_rotary_factor = {} rotates {} of a head", m.partial_rotary_factor,
                            counted(rotary, "element")),
                "give a share that is an even number of elements: they rotate in pairs");
  check_scaling(rules, m, rotary);
  // No model is known that has both, and the second case would need a rotation of nothing that scales.
  rules.require(m.query_position_scale == 0 || m.partial_rotary_factor == 1,
                {"model.query_position_scale", "model.partial_rotary_factor"},
                "model.query_position_scale does not go with model.partial_rotary_factor",
                "remove one of them: queries are scaled by the rotation of whole heads");
  rules.require(m.query_position_scale == 0 || m.no_rope_layer_interval == 0,
                {"model.query_position_scale", "model.no_rope_layer_interval"},
                "model.query_position_scale does not go with model.no_rope_layer_interval",
                "remove one of them: queries are scaled by their rotation");
  check_samples(rules, config);
}

}  // namespace hearth::config
