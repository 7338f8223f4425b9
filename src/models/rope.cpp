// SPDX-License-Identifier: Apache-2.0
#include "models/rope.h"

#include <cmath>

#include "config/derived.h"

namespace hearth::models {

using config::RopeType;

int64_t Rope::rotary_width(int64_t K) const { return rotated > 0 ? rotated : config::rotary_width(rotated_share, K); }

double default_attention_factor(const config::Model& m) {
  const double stretch = std::log(m.rope_scaling_factor);
  if (m.rope_type == RopeType::kYarn) return 0.1 * stretch + 1;
  if (m.rope_type == RopeType::kLongRope)
    return std::sqrt(1 + stretch / std::log(static_cast<double>(m.rope_original_seq_len)));
  return 1;
}

Rope rope_of(const config::Model& m) {
  Rope rope{.theta = m.rope_theta,
            .type = m.rope_type,
            .scaling_factor = m.rope_scaling_factor,
            .low_freq_factor = m.rope_low_freq_factor,
            .high_freq_factor = m.rope_high_freq_factor,
            .original_seq_len = m.rope_original_seq_len};
  rope.rotated_share = m.partial_rotary_factor;
  if (m.has_latents()) rope.rotated = m.qk_rope_head_dim;
  rope.query_position_scale = m.query_position_scale;
  rope.halves = m.rope_pairs == config::RopePairs::kHalves;
  if (m.rope_scaling_factor == 1) rope.type = RopeType::kDefault;
  if (rope.type == RopeType::kYarn) {
    rope.beta_fast = m.rope_beta_fast;
    rope.beta_slow = m.rope_beta_slow;
    rope.truncate = m.rope_truncate;
    const double stretch = 0.1 * m.rope_mscale_all_dim * std::log(m.rope_scaling_factor) + 1;
    rope.score_factor = stretch * stretch;
  }
  if (rope.type == RopeType::kLongRope) {
    rope.short_factor = m.rope_short_factor;
    rope.long_factor = m.rope_long_factor;
  }
  if (rope.type == RopeType::kYarn || rope.type == RopeType::kLongRope)
    rope.attention_factor = m.rope_attention_factor > 0 ? m.rope_attention_factor : default_attention_factor(m);
  return rope;
}

Rope local_rope_of(const config::Model& m) {
  Rope rope;
  rope.theta = m.rope_local_theta > 0 ? m.rope_local_theta : m.rope_theta;
  rope.type = RopeType::kDefault;
  rope.original_seq_len = m.rope_original_seq_len;
  rope.rotated_share = m.partial_rotary_factor;
  if (m.has_latents()) rope.rotated = m.qk_rope_head_dim;
  rope.query_position_scale = m.query_position_scale;
  rope.halves = m.rope_pairs == config::RopePairs::kHalves;
  return rope;
}

}  // namespace hearth::models
