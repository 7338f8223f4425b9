#include <fmt/format.h>

#include <nlohmann/json.hpp>

#include "base/error.h"
#include "convert/hugging_face_config.h"

namespace hearth::convert {
namespace {

using OutJson = nlohmann::ordered_json;

struct OutType {
  const char *model_type, *architecture;
};

OutType type_of(const Description& d) {
  if (d.objective == config::ObjectiveKind::kSpikeLm)
    throw user_error("a model of spikes has no home in Hugging Face's formats",
                     "no class of transformers computes its loss or reads its tokens",
                     "keep it native; `hearth generate` and `hearth eval` read it");
  const bool is_qwen = d.model.qkv_bias || d.model.qk_norm;
  if (d.model.qkv_bias && d.model.qk_norm)
    throw user_error("model.qkv_bias with model.qk_norm has no home in Hugging Face's formats",
                     "Qwen2's class has the biases, and Qwen3's the norms of heads", "keep the model native");
  switch (d.model.norm_type) {
    case config::NormType::kRmsNorm:
      if (d.model.qkv_bias) return {"qwen2", "Qwen2ForCausalLM"};
      if (d.model.qk_norm) return {"qwen3", "Qwen3ForCausalLM"};
      if (d.model.sliding_window > 0) return {"mistral", "MistralForCausalLM"};
      return {"llama", "LlamaForCausalLM"};
    case config::NormType::kNpLayerNorm:
      if (is_qwen || d.model.head_dim > 0) break;
      if (d.model.sliding_window > 0)
        throw user_error(fmt::format("model.sliding_window = {} has no home with np_layernorm", d.model.sliding_window),
                         "OlmoForCausalLM has no window", "keep the model native");
      if (d.model.norm_eps == 1e-5) return {"olmo", "OlmoForCausalLM"};
      throw user_error(fmt::format("model.norm_eps = {} has no home in Hugging Face's formats", d.model.norm_eps),
                       "OlmoForCausalLM computes np_layernorm with 1e-05", "keep the model native");
    case config::NormType::kLayerNorm:
    case config::NormType::kRmsNormNeox:
      break;
  }
  throw user_error(
      fmt::format("model.norm_type = \"{}\" has no home in Hugging Face's formats", config::name_of(d.model.norm_type)),
      "no class of transformers has this norm with the model's other keys; rmsnorm goes out as llama or qwen, and "
      "np_layernorm as olmo",
      "keep the model native");
}

OutJson token_or_null(const std::optional<int64_t>& token) { return token ? OutJson(*token) : OutJson(); }
OutJson end_tokens(const std::vector<int64_t>& eos) {
  if (eos.empty()) return {};
  return eos.size() == 1 ? OutJson(eos[0]) : OutJson(eos);
}

// Its classes count the layers without a window from the first one.
void add_window_of_qwen(OutJson& j, const config::Model& m) {
  j["use_sliding_window"] = m.sliding_window > 0;
  if (m.sliding_window == 0) return;
  j["sliding_window"] = m.sliding_window;
  j["max_window_layers"] = 0;
}

}  // namespace

std::string format_hugging_face_config(const Description& d, DType dtype) {
  const config::Model& m = d.model;
  const OutType type = type_of(d);
  OutJson scaling, parameters = {{"rope_type", "default"}, {"rope_theta", m.rope_theta}};
  if (m.rope_scaling_factor != 1) {
    scaling = {{"rope_type", "llama3"},
               {"factor", m.rope_scaling_factor},
               {"low_freq_factor", m.rope_low_freq_factor},
               {"high_freq_factor", m.rope_high_freq_factor},
               {"original_max_position_embeddings", m.rope_original_seq_len}};
    parameters = scaling;
    parameters["rope_theta"] = m.rope_theta;
    scaling["rope_theta"] = m.rope_theta;
  }
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
               {"num_key_value_heads", m.n_kv_heads},
               {"rope_theta", m.rope_theta},
               {"rope_scaling", scaling},
               {"rope_parameters", parameters},
               {"tie_word_embeddings", m.enable_weight_tying},
               {"use_cache", true},
               {"vocab_size", m.vocab_size}};
  if (m.norm_type == config::NormType::kRmsNorm) {
    j["head_dim"] = head_width(m);
    j["rms_norm_eps"] = m.norm_eps;
  } else {
    j["clip_qkv"] = nullptr;
  }
  const std::string_view name = type.model_type;
  if (name != "qwen2" && name != "mistral") j["attention_bias"] = false;
  if (name == "llama") j["mlp_bias"] = false;
  if (name == "mistral") j["sliding_window"] = m.sliding_window;
  if (name.starts_with("qwen")) add_window_of_qwen(j, m);
  if (d.objective == config::ObjectiveKind::kMaskedLm) j["is_causal"] = false;
  if (d.mask) j["mask_token_id"] = *d.mask;
  return j.dump(2) + "\n";
}

std::string format_generation_config(const Description& d) {
  const OutJson j = {
      {"_from_model_config", true}, {"bos_token_id", token_or_null(d.bos)}, {"eos_token_id", end_tokens(d.eos)}};
  return j.dump(2) + "\n";
}

}  // namespace hearth::convert
