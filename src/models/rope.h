// SPDX-License-Identifier: Apache-2.0
// What positions do to queries and keys: rotary embedding (arXiv 2104.09864) and its scaled forms.
#pragma once

#include <cstdint>
#include <vector>

#include "config/choices.h"

namespace hearth::config {
struct Model;
}

namespace hearth::models {

// The angle by which a position rotates each pair of a head's elements.
struct Rope {
  double theta = 10000;
  config::RopeType type = config::RopeType::kLlama3;
  double scaling_factor = 1;                                // 1: no scaling
  double low_freq_factor = 1, high_freq_factor = 4;         // kLlama3
  int64_t original_seq_len = 8192;                          // of all types except kLinear
  double beta_fast = 32, beta_slow = 1;                     // kYarn
  bool truncate = true;                                     // kYarn
  std::vector<double> short_factor = {}, long_factor = {};  // kLongRope: of each pair
  double attention_factor = 1;                              // rotated elements are multiplied by it
  double rotated_share = 1;                                 // of a head, its first elements
  int64_t rotated = 0;                                      // R, where it is not a share of a head (latent attention)
  double score_factor = 1;          // of attention's scores: (0.1 m ln(scaling_factor) + 1)^2 in DeepSeek-V3's YaRN
  double query_position_scale = 0;  // queries times 1 + this * ln(1 + floor(position / original_seq_len)); 0: not
  bool halves = false;              // of R rotated elements, pairs are (i, i + R/2); else (2i, 2i + 1)
  bool operator==(const Rope&) const = default;

  // R of a head with K elements; even.
  int64_t rotary_width(int64_t K) const;
  bool scales_queries() const { return query_position_scale != 0; }
  // Whether a sequence of S positions has the long factors. As in transformers, all of its positions have them then.
  bool is_long(int64_t S) const { return type == config::RopeType::kLongRope && S > original_seq_len; }
};

// The factor of rotated elements where model.rope_attention_factor is 0: of YaRN by arXiv 2309.00071, of longrope by
// arXiv 2402.13753, else 1.
double default_attention_factor(const config::Model& model);

// The rope of most layers, and of those with a window if they have a base of their own (model.rope_local_theta).
Rope rope_of(const config::Model& model);
Rope local_rope_of(const config::Model& model);

}  // namespace hearth::models
