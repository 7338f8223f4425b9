// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>

#include "config/derived.h"
#include "config/rules.h"

namespace hearth::config {

void check_latent(Rules& rules, const Model& m) {
  constexpr std::string_view kNope = "model.qk_nope_head_dim", kRope = "model.qk_rope_head_dim",
                             kLatent = "model.kv_lora_rank";
  const int64_t width = head_width(m);
  rules.require(m.qk_rope_head_dim % 2 == 0, {kRope}, fmt::format("{} = {} is odd", kRope, m.qk_rope_head_dim),
                "make it even: rotary embedding turns pairs of elements");
  rules.require(m.qk_nope_head_dim % 2 == 0, {kNope}, fmt::format("{} = {} is odd", kNope, m.qk_nope_head_dim),
                "make it even: pairs of elements rotate behind these");
  rules.require(width <= kMaxHeadWidth, {kNope, kRope},
                fmt::format("a head has {} + {} = {} elements, more than {}", kNope, kRope, width, kMaxHeadWidth),
                "give a narrower head: the attention kernels do not support wider ones");
  rules.require(m.v_head_dim <= width, {"model.v_head_dim"},
                fmt::format("model.v_head_dim = {} is more than the {} elements of a key", m.v_head_dim, width),
                "give narrower values: the attention kernels have room for a key's elements");
  const auto forbid = [&](bool is_there, std::string_view key, const char* fix) {
    rules.require(!is_there, key, "does not go with", kLatent, fix);
  };
  forbid(m.head_dim != 0, "model.head_dim",
         "remove it: a head has model.qk_nope_head_dim + model.qk_rope_head_dim elements");
  forbid(m.n_kv_heads != 0 && m.n_kv_heads != m.n_heads, "model.n_kv_heads",
         "remove it: each head has keys and values of its own");
  forbid(m.partial_rotary_factor != 1, "model.partial_rotary_factor",
         "remove it: model.qk_rope_head_dim is the number of elements that rotate");
  forbid(m.query_position_scale != 0, "model.query_position_scale",
         "remove it: queries are scaled by the rotation of whole heads");
  forbid(m.rope_pairs != RopePairs::kInterleaved, "model.rope_pairs",
         "remove it: neighbours rotate as pairs, as in DeepSeek's files");
}

}  // namespace hearth::config
