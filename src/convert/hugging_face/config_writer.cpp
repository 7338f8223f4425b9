// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>

#include <cmath>
#include <nlohmann/json.hpp>
#include <string_view>
#include <variant>
#include <vector>

#include "base/error.h"
#include "config/derived.h"
#include "config/families.h"
#include "convert/hugging_face/config.h"
#include "convert/hugging_face/experts.h"
#include "convert/hugging_face/latent.h"
#include "convert/hugging_face/llada.h"
#include "convert/hugging_face/modernbert.h"
#include "convert/hugging_face/neobert.h"
#include "convert/hugging_face/rope.h"

namespace hearth::convert {
namespace {

using OutJson = nlohmann::ordered_json;

const config::Family& family_with(const Description& d) {
  if (d.objective == config::ObjectiveKind::kSpikeLm)
    throw user_error("a model of spikes has no home in Hugging Face's formats",
                     "no class of transformers computes its loss or reads its tokens",
                     "keep it native; `hearth generate` and `hearth eval` read it");
  const config::Family& nearest = config::nearest_family(d.model);
  const std::vector<std::string> differences = config::differences(nearest, d.model);
  if (!differences.empty())
    throw user_error(fmt::format("{} has no home in Hugging Face's formats", fmt::join(differences, " and ")),
                     fmt::format("{} is the class of transformers with the model's other keys, and computes something "
                                 "else",
                                 nearest.hugging_face.architecture),
                     "keep the model native");
  if (nearest.hugging_face.is_encoder && d.objective != config::ObjectiveKind::kMaskedLm)
    throw user_error(fmt::format("objective.kind = \"{}\" has no home in Hugging Face's formats", name_of(d.objective)),
                     fmt::format("{} of transformers sees both sides", nearest.hugging_face.architecture),
                     "keep the model native");
  return nearest;
}

OutJson token_or_null(const std::optional<int64_t>& token) { return token ? OutJson(*token) : OutJson(); }
OutJson end_tokens(const std::vector<int64_t>& eos) {
  if (eos.empty()) return {};
  return eos.size() == 1 ? OutJson(eos[0]) : OutJson(eos);
}

// With is_causal = false transformers takes sliding_window for the reach to each side.
void add_window(OutJson& j, const Description& d, config::SlidingWindowUse use) {
  const config::Model& m = d.model;
  const bool both_sides = d.objective == config::ObjectiveKind::kMaskedLm;
  const bool is_switched = use == config::SlidingWindowUse::kSwitched;
  if (is_switched) j["use_sliding_window"] = m.sliding_window > 0;
  if (both_sides && m.sliding_window == 1)
    throw user_error("model.sliding_window = 1 has no home in Hugging Face's formats",
                     "a window of one token is no window there", "keep the model native");
  if (m.sliding_window > 0)
    j["sliding_window"] = both_sides ? m.sliding_window / 2 : m.sliding_window;
  else if (!is_switched)
    j["sliding_window"] = OutJson();
  if (use == config::SlidingWindowUse::kAlways || (is_switched && m.sliding_window == 0)) return;
  const int64_t windowed = config::count_windowed_layers(m);
  // Qwen's classes of old transformers, which know no layer_types, count the layers without a window from the first.
  if (is_switched) {
    int64_t full = 0;
    while (full < m.n_layers && config::window_of_layer(m, full) == 0) ++full;
    j["max_window_layers"] = full;
    if (windowed == m.n_layers) return;
  }
  std::vector<std::string_view> types;
  for (int64_t layer = 0; layer < m.n_layers; ++layer)
    types.push_back(config::window_of_layer(m, layer) > 0 ? config::kSlidingAttention : config::kFullAttention);
  j["layer_types"] = types;
}

// SmolLM3's class makes the list from the interval, where it is not given.
void add_no_rope(OutJson& j, const config::Model& m) {
  std::vector<int> rotates;
  for (int64_t layer = 1; layer <= m.n_layers; ++layer)
    rotates.push_back(m.no_rope_layer_interval == 0 || layer % m.no_rope_layer_interval != 0 ? 1 : 0);
  j["no_rope_layers"] = rotates;
  if (m.no_rope_layer_interval > 0) j["no_rope_layer_interval"] = m.no_rope_layer_interval;
}

// EXAONE 4's class rotates layers with a window alone, or all if no layer has one. Trinity's never rotates others.
void check_rotation_by_window(const config::HuggingFaceClass& type, const config::Model& m) {
  const int64_t n = m.no_rope_layer_interval;
  const bool all_without = m.sliding_window == 0 && type.window_pattern != kGlobalInterval;
  for (int64_t layer = 0; layer < m.n_layers; ++layer) {
    const bool rotates = n == 0 || (layer + 1) % n != 0;
    if (rotates == (all_without || config::window_of_layer(m, layer) > 0)) continue;
    throw user_error(fmt::format("model.no_rope_layer_interval = {} has no home in {}'s format", n, type.model_type),
                     "layers with a window rotate there, and others do not", "keep the model native");
  }
}

// Granite's class has no default for attention_multiplier that depends on the head's width.
void add_multipliers(OutJson& j, const config::Model& m) {
  j["embedding_multiplier"] = m.embedding_multiplier;
  j["residual_multiplier"] = m.residual_multiplier;
  j["attention_multiplier"] =
      m.attention_multiplier > 0 ? m.attention_multiplier : 1 / std::sqrt(static_cast<double>(head_width(m)));
  j["logits_scaling"] = m.logits_divisor;
}

bool scales_by_root_of_width(const config::Model& m) {
  const double root = std::sqrt(static_cast<double>(m.dim));
  return std::abs(m.embedding_multiplier - root) <= 1e-6 * root;
}

[[noreturn]] void refuse_multiplier(std::string_view key, double value, std::string_view model_type) {
  throw user_error(fmt::format("model.{} = {} has no home in {}'s format", key, value, model_type), {},
                   "keep the model native");
}

// Classes that scale embeddings by sqrt(dim), always or if mup_enabled says so.
void add_embedding_scale(OutJson& j, const config::HuggingFaceClass& type, const config::Model& m) {
  const bool is_scaled = m.embedding_multiplier != 1;
  if (type.has_mup) j["mup_enabled"] = is_scaled;
  if (scales_by_root_of_width(m) || (type.has_mup && !is_scaled)) return;
  refuse_multiplier("embedding_multiplier", m.embedding_multiplier, type.model_type);
}

// Gemma's class scales scores by one over the root of a whole number.
void add_query_scalar(OutJson& j, const config::HuggingFaceClass& type, const config::Model& m) {
  const double given = m.attention_multiplier;
  const int64_t scalar = given > 0 ? std::llround(1 / (given * given)) : head_width(m);
  if (given > 0 && std::abs(given * std::sqrt(static_cast<double>(scalar)) - 1) > 1e-6)
    refuse_multiplier("attention_multiplier", given, type.model_type);
  j["query_pre_attn_scalar"] = scalar;
}

}  // namespace

std::string format_hugging_face_config(const Description& d, DType dtype) {
  if (d.objective == config::ObjectiveKind::kMaskedDiffusion) return format_llada_config(d, dtype);
  const config::Model& m = d.model;
  const config::Family& family = family_with(d);
  const config::HuggingFaceClass& type = family.hugging_face;
  OutJson j = {{"architectures", {type.architecture}},
               {"model_type", type.model_type},
               {"attention_dropout", 0.0},
               {"bos_token_id", token_or_null(d.bos)},
               {"eos_token_id", end_tokens(d.eos)},
               {"dtype", dtype_name(dtype)},
               {"torch_dtype", dtype_name(dtype)},
               {"hidden_act", "silu"},
               {"hidden_size", m.dim},
               {"initializer_range", 0.02},
               {"intermediate_size", m.hidden_dim},
               {"max_position_embeddings", d.max_positions},
               {"num_attention_heads", m.n_heads},
               {"num_hidden_layers", m.n_layers},
               {"num_key_value_heads", m.has_latents() ? m.n_heads : m.n_kv_heads},
               {"tie_word_embeddings", m.enable_weight_tying},
               {"use_cache", true},
               {"pad_token_id", OutJson()},  // some classes have one of their own, which a vocabulary may lack
               {"vocab_size", m.vocab_size}};
  write_rope(j, type, m);
  if (type.has_head_dim) j["head_dim"] = head_width(m);
  if (family.find("norm_eps") == nullptr) j["rms_norm_eps"] = m.norm_eps;
  for (const config::Setting& field : type.writes)
    std::visit([&](const auto& value) { j[field.key] = value; }, field.value);
  if (type.window != config::SlidingWindowUse::kNever) add_window(j, d, type.window);
  if (type.no_rope_layer_interval > 0) add_no_rope(j, m);
  if (!type.full_layers_rotate) check_rotation_by_window(type, m);
  for (const config::FieldKey& key : type.keys)
    std::visit([&](const auto& value) { j[key.field] = value; }, config::key_of(m, key.key));
  if (m.has_latents() && m.q_lora_rank == 0) j[kQueryLatent] = OutJson();
  if (!type.prediction_layers.empty()) j[type.prediction_layers] = 0;
  if (type.has_multipliers) add_multipliers(j, m);
  if (type.has_mup || type.scales_embeddings) add_embedding_scale(j, type, m);
  if (type.query_pre_attn_scalar > 0) add_query_scalar(j, type, m);
  write_experts(j, type, m);
  if (d.objective == config::ObjectiveKind::kMaskedLm) j["is_causal"] = false;
  if (d.mask) j["mask_token_id"] = *d.mask;
  if (type.model_type == kModernBertType) j = with_modernbert_names(j, type);
  if (type.model_type == kNeoBertType) j = to_neobert_names(j);
  return j.dump(2) + "\n";
}

std::string format_generation_config(const Description& d) {
  const OutJson j = {
      {"_from_model_config", true}, {"bos_token_id", token_or_null(d.bos)}, {"eos_token_id", end_tokens(d.eos)}};
  return j.dump(2) + "\n";
}

}  // namespace hearth::convert
