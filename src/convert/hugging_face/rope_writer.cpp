// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>

#include <cmath>
#include <nlohmann/json.hpp>

#include "base/error.h"
#include "config/derived.h"
#include "convert/description.h"
#include "convert/hugging_face/rope.h"
#include "models/rope.h"

namespace hearth::convert {
namespace {

using config::RopeType;
using OutJson = nlohmann::ordered_json;

[[noreturn]] void refuse_rope(const std::string& key, const config::HuggingFaceClass& type, std::string why) {
  throw user_error(fmt::format("{} has no home in Hugging Face's formats", key),
                   fmt::format("{} of transformers: {}", type.architecture, why), "keep the model native");
}

// The scaling of layers without a window, with a base; "default" without a scaling.
OutJson style_of(const config::Model& m) {
  const models::Rope rope = models::rope_of(m);
  OutJson style = {{"rope_type", config::name_of(rope.type)}};
  if (rope.type == RopeType::kDefault) return {{"rope_type", "default"}, {"rope_theta", m.rope_theta}};
  style["factor"] = m.rope_scaling_factor;
  if (rope.type == RopeType::kLlama3) {
    style["low_freq_factor"] = m.rope_low_freq_factor;
    style["high_freq_factor"] = m.rope_high_freq_factor;
  }
  if (rope.type == RopeType::kYarn) {
    style["beta_fast"] = m.rope_beta_fast;
    style["beta_slow"] = m.rope_beta_slow;
    if (!m.rope_truncate) style["truncate"] = false;
  }
  if (rope.type == RopeType::kLongRope) {
    style["short_factor"] = m.rope_short_factor;
    style["long_factor"] = m.rope_long_factor;
  }
  if (rope.type == RopeType::kYarn || rope.type == RopeType::kLongRope)
    style["attention_factor"] = rope.attention_factor;
  // DeepSeek's own code takes the factor of rotated elements from mscale / mscale_all_dim.
  if (m.rope_mscale_all_dim > 0 && rope.attention_factor == 1) style["mscale"] = m.rope_mscale_all_dim;
  if (m.rope_mscale_all_dim > 0 && rope.type == RopeType::kYarn) style["mscale_all_dim"] = m.rope_mscale_all_dim;
  if (rope.type != RopeType::kLinear) style["original_max_position_embeddings"] = m.rope_original_seq_len;
  style["rope_theta"] = m.rope_theta;
  return style;
}

// transformers 4 allows three fields of Phi-3's rope_scaling, and takes the factor from other fields.
void write_phi3(OutJson& fields, const config::HuggingFaceClass& type, const config::Model& m) {
  const double longest = m.rope_scaling_factor * static_cast<double>(m.rope_original_seq_len);
  if (m.rope_attention_factor != 0)
    refuse_rope(fmt::format("model.rope_attention_factor = {}", m.rope_attention_factor), type,
                "it follows from max_position_embeddings");
  if (longest != std::floor(longest))
    refuse_rope(fmt::format("model.rope_scaling_factor = {}", m.rope_scaling_factor), type,
                "it is max_position_embeddings / original_max_position_embeddings");
  fields["max_position_embeddings"] = static_cast<int64_t>(longest);
  fields["original_max_position_embeddings"] = m.rope_original_seq_len;
  fields["rope_scaling"] = {
      {"type", "longrope"}, {"short_factor", m.rope_short_factor}, {"long_factor", m.rope_long_factor}};
}

// The styles of layers without and with a window. transformers 4 scales the first ones alone.
void write_layers(OutJson& fields, const config::HuggingFaceClass& type, const config::Model& m, const OutJson& full) {
  const bool has_field = type.rope_local_theta != type.rope_theta;  // of the base; else all layers have one
  const double base = m.rope_local_theta > 0 ? m.rope_local_theta : m.rope_theta;
  if (m.rope_local_theta == 0 && m.rope_scaling_factor != 1)
    refuse_rope("model.rope_local_theta = 0", type, "layers with a window are not scaled");
  if (!has_field && base != m.rope_theta)
    refuse_rope(fmt::format("model.rope_local_theta = {}", m.rope_local_theta), type, "all layers have one base");
  // transformers looks for it beside the styles of layers, where it is not.
  if (!m.rope_truncate) refuse_rope("model.rope_truncate = false", type, "its whole numbers are always rounded");
  if (has_field) fields["rope_local_base_freq"] = base;
  OutJson sliding = {{"rope_type", "default"}, {"rope_theta", base}};
  if (m.partial_rotary_factor != 1) sliding["partial_rotary_factor"] = m.partial_rotary_factor;
  fields["rope_parameters"] = {{"full_attention", full}, {"sliding_attention", std::move(sliding)}};
}

}  // namespace

void write_rope(OutJson& fields, const config::HuggingFaceClass& type, const config::Model& m) {
  OutJson style = style_of(m);
  const bool is_scaled = style["rope_type"] != "default";
  if (type.query_position_scale) {
    style["llama_4_scaling_beta"] = m.query_position_scale;
    style["original_max_position_embeddings"] = m.rope_original_seq_len;
  }
  if (m.partial_rotary_factor != 1 || (type.partial_rotary > 0 && type.partial_rotary < 1))
    style["partial_rotary_factor"] = fields["partial_rotary_factor"] = m.partial_rotary_factor;
  if (type.has_rotary_dim) fields["rotary_dim"] = config::rotary_width(m);
  fields["rope_theta"] = m.rope_theta;
  fields["rope_scaling"] = is_scaled || type.query_position_scale ? style : OutJson();
  fields["rope_parameters"] = style;
  // Only Phi-3's class lists its types.
  if (is_scaled && !type.rope_types.empty()) write_phi3(fields, type, m);
  if (type.layered_rope) write_layers(fields, type, m, style);
}

}  // namespace hearth::convert
