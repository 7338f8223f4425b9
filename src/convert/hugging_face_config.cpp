#include "convert/hugging_face_config.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <nlohmann/json.hpp>
#include <set>

#include "base/error.h"
#include "base/text.h"
#include "formats/json_object.h"

namespace hearth::convert {
namespace {

using HfJson = nlohmann::json;

constexpr const char* kOtherModel = "Hearth would compute something else than this model";

// The types of models, with the defaults of their classes in transformers for fields that a file may lack.
struct ModelType {
  std::string_view name;
  config::NormType norm;
  int64_t max_positions;
  int64_t key_heads;       // 0: as many as query heads
  int64_t sliding_window;  // 0: the class has none, or a switch for it that is off
  int64_t head_dim;        // 0: hidden_size / num_attention_heads
  bool qkv_bias, qk_norm;
};
constexpr std::array kModelTypes = {
    ModelType{"llama", config::NormType::kRmsNorm, 2048, 0, 0, 0, false, false},
    ModelType{"mistral", config::NormType::kRmsNorm, 131072, 8, 4096, 0, false, false},
    ModelType{"olmo", config::NormType::kNpLayerNorm, 2048, 0, 0, 0, false, false},
    ModelType{"qwen2", config::NormType::kRmsNorm, 32768, 32, 0, 0, true, false},
    ModelType{"qwen3", config::NormType::kRmsNorm, 32768, 32, 0, 128, false, true},
};
constexpr double kOlmoEps = 1e-5;  // fixed in its class

// Fields that do not change the computation of logits.
constexpr std::string_view kIgnored[] = {"_attn_implementation_autoset",
                                         "_commit_hash",
                                         "_flash_attn_2_enabled",
                                         "_name_or_path",
                                         "architectures",
                                         "attention_dropout",
                                         "bad_words_ids",
                                         "begin_suppress_tokens",
                                         "chunk_size_feed_forward",
                                         "decoder_start_token_id",
                                         "diversity_penalty",
                                         "do_sample",
                                         "dtype",
                                         "early_stopping",
                                         "encoder_no_repeat_ngram_size",
                                         "exponential_decay_length_penalty",
                                         "finetuning_task",
                                         "forced_bos_token_id",
                                         "forced_eos_token_id",
                                         "id2label",
                                         "initializer_range",
                                         "label2id",
                                         "length_penalty",
                                         "max_length",
                                         "max_sequence_length",
                                         "max_window_layers",
                                         "min_length",
                                         "neftune_noise_alpha",
                                         "model_type",
                                         "no_repeat_ngram_size",
                                         "num_beam_groups",
                                         "num_beams",
                                         "num_return_sequences",
                                         "output_attentions",
                                         "output_hidden_states",
                                         "output_scores",
                                         "pad_token_id",
                                         "prefix",
                                         "pretraining_tp",
                                         "problem_type",
                                         "remove_invalid_values",
                                         "repetition_penalty",
                                         "return_dict",
                                         "return_dict_in_generate",
                                         "sep_token_id",
                                         "suppress_tokens",
                                         "task_specific_params",
                                         "temperature",
                                         "tf_legacy_loss",
                                         "tokenizer_class",
                                         "top_k",
                                         "top_p",
                                         "torch_dtype",
                                         "torchscript",
                                         "transformers.js_config",
                                         "transformers_version",
                                         "typical_p",
                                         "unsloth_version",
                                         "use_bfloat16",
                                         "use_cache"};

// Fields that this reader uses.
constexpr std::string_view kUsed[] = {
    "vocab_size",          "hidden_size",         "intermediate_size", "num_hidden_layers",
    "num_attention_heads", "num_key_value_heads", "head_dim",          "max_position_embeddings",
    "rms_norm_eps",        "rope_parameters",     "rope_scaling",      "rope_theta",
    "tie_word_embeddings", "bos_token_id",        "eos_token_id",      "sliding_window"};

// Fields that must have one of these values, or null.
struct Fixed {
  std::string_view name, values;  // a list in JSON
};
constexpr Fixed kFixed[] = {
    {"hidden_act", R"(["silu", "swish"])"},
    {"hidden_activation", R"(["silu", "swish"])"},
    {"attention_bias", "[false]"},
    {"mlp_bias", "[false]"},
    {"clip_qkv", "[]"},
    {"is_causal", "[true]"},
    {"is_decoder", "[false, true]"},
    {"is_encoder_decoder", "[false]"},
    {"is_llama_config", "[true]"},  // SmolLM2
    {"add_cross_attention", "[false]"},
    {"cross_attention_hidden_size", "[]"},
    {"tie_encoder_decoder", "[false]"},
    {"pruned_heads", "[{}]"},
    {"quantization_config", "[]"},
    {"use_mrope", "[false]"},  // Qwen2.5
    {"use_sliding_window", "[false]"},
    {"rope_interleaved", "[false]"},
    {"partial_rotary_factor", "[1]"},
    {"attention_multiplier", "[]"},
};

template <size_t N>
bool is_among(const std::string_view (&names)[N], std::string_view name) {
  return std::find(std::begin(names), std::end(names), name) != std::end(names);
}

class ConfigReader {
 public:
  ConfigReader(const std::string& origin, std::vector<std::string>& notes) : origin_(origin), notes_(notes) {}

  Description run(std::string_view text) {
    json_ = formats::parse_json_object(text, origin_);
    type_ = &find_type();
    for (const auto& [name, value] : json_.items()) check_field(name, value);
    read_sizes();
    read_rope();
    read_tokens();
    return std::move(found_);
  }

 private:
  [[noreturn]] void refuse(const std::string& what, std::string why = kOtherModel, std::string fix = {}) const {
    throw user_error(fmt::format("{}: {}", origin_, what), std::move(why), std::move(fix));
  }
  bool has(const std::string& name) const { return json_.contains(name) && !json_.at(name).is_null(); }

  const ModelType& find_type() const {
    const std::string name = json_.contains("model_type") && json_["model_type"].is_string()
                                 ? json_["model_type"].get<std::string>()
                                 : std::string();
    std::vector<std::string> known;
    for (const ModelType& type : kModelTypes) {
      if (type.name == name) return type;
      known.emplace_back(type.name);
    }
    refuse(name.empty() ? "has no model_type" : fmt::format("model_type \"{}\" is not one that Hearth computes", name),
           fmt::format("known types: {}", join(known)));
  }

  void check_field(const std::string& name, const HfJson& value) const {
    if (is_among(kIgnored, name) || is_among(kUsed, name)) return;
    if (name == "layer_types") {
      const auto is_full = [](const HfJson& type) { return type == "full_attention"; };
      if (value.is_null() || std::all_of(value.begin(), value.end(), is_full)) return;
      refuse("layer_types has a layer without full_attention");
    }
    for (const Fixed& fixed : kFixed) {
      if (fixed.name != name) continue;
      const HfJson allowed = HfJson::parse(fixed.values);
      if (value.is_null() || std::find(allowed.begin(), allowed.end(), value) != allowed.end()) return;
      refuse(fmt::format("{} = {}", name, value.dump()),
             fmt::format("Hearth computes this model only with {}", allowed.empty() ? "null" : allowed[0].dump()));
    }
    refuse(fmt::format("field \"{}\" is not known", name), "it could change what the model computes",
           "remove it from a copy of the file, if you know that it does not");
  }

  int64_t integer(const std::string& name, int64_t missing = -1) const {
    if (!has(name)) {
      if (missing < 0) refuse(fmt::format("has no {}", name), {});
      return missing;
    }
    return size_of(json_.at(name), name);
  }
  int64_t size_of(const HfJson& value, const std::string& name) const {
    if (!value.is_number_integer() || value < 0 || value > int64_t{1} << 31)
      refuse(fmt::format("{} = {} is not a size", name, value.dump()), {});
    return value.get<int64_t>();
  }
  double number(const HfJson& value, const std::string& name) const {
    if (!value.is_number() || !std::isfinite(value.get<double>()) || value.get<double>() <= 0)
      refuse(fmt::format("{} = {} is not a positive number", name, value.dump()), {});
    return value.get<double>();
  }

  void read_sizes() {
    config::Model& m = found_.model;
    m.dim = integer("hidden_size");
    m.n_layers = integer("num_hidden_layers");
    m.n_heads = integer("num_attention_heads");
    m.hidden_dim = integer("intermediate_size");
    m.vocab_size = integer("vocab_size");
    if (m.dim < 1 || m.n_layers < 1 || m.n_heads < 1 || m.hidden_dim < 1 || m.vocab_size < 1)
      refuse("a size of the model is 0", {});
    m.n_kv_heads = integer("num_key_value_heads", type_->key_heads > 0 ? type_->key_heads : m.n_heads);
    if (m.n_kv_heads == 0 || m.n_heads % m.n_kv_heads != 0)
      refuse(fmt::format("num_attention_heads = {} is not a multiple of num_key_value_heads = {}", m.n_heads,
                         m.n_kv_heads),
             {});
    const int64_t width = integer("head_dim", type_->head_dim > 0 ? type_->head_dim : m.dim / m.n_heads);
    if (m.dim % m.n_heads != 0 || width != m.dim / m.n_heads) m.head_dim = width;
    if (width == 0 || width % 2 != 0 || (m.head_dim > 0 && type_->norm == config::NormType::kNpLayerNorm))
      refuse(fmt::format("heads of width {}", width));
    m.qkv_bias = type_->qkv_bias;
    m.qk_norm = type_->qk_norm;
    m.norm_type = type_->norm;
    m.norm_eps = 1e-6;
    if (type_->norm == config::NormType::kNpLayerNorm)
      m.norm_eps = kOlmoEps;
    else if (has("rms_norm_eps"))
      m.norm_eps = number(json_.at("rms_norm_eps"), "rms_norm_eps");
    m.rope_pairs = config::RopePairs::kHalves;
    if (has("tie_word_embeddings")) {
      if (!json_.at("tie_word_embeddings").is_boolean()) refuse("tie_word_embeddings is neither true nor false", {});
      m.enable_weight_tying = json_.at("tie_word_embeddings").get<bool>();
    }
    found_.max_positions = integer("max_position_embeddings", type_->max_positions);
    read_window();
  }

  // A window as long as the longest sequence never hides a position.
  void read_window() {
    if (type_->qkv_bias || type_->qk_norm) return;  // use_sliding_window, which is off, decides
    int64_t window = integer("sliding_window", 0);
    if (type_->sliding_window > 0 && !json_.contains("sliding_window")) window = type_->sliding_window;
    if (window == 0 || window >= found_.max_positions) return;
    if (type_->sliding_window == 0) refuse(fmt::format("sliding_window = {}", window));
    notes_.push_back(
        fmt::format("sliding_window = {}: longer sequences compute something else here, so the longest is {}, not {}",
                    window, window, found_.max_positions));
    found_.max_positions = window;
  }

  // The model with the scaling of Llama 3.1's rotary embedding that `style` has.
  config::Model scaled_model(const HfJson& style, const std::string& name) const {
    const auto field = [&](const char* key) -> const HfJson& {
      if (!style.contains(key)) refuse(fmt::format("{} has no {}", name, key), {});
      return style[key];
    };
    const auto factor = [&](const char* key) { return number(field(key), name + "." + key); };
    config::Model scaled = found_.model;
    scaled.rope_scaling_factor = factor("factor");
    scaled.rope_low_freq_factor = factor("low_freq_factor");
    scaled.rope_high_freq_factor = factor("high_freq_factor");
    if (scaled.rope_low_freq_factor >= scaled.rope_high_freq_factor)
      refuse(fmt::format("{}.high_freq_factor is not above {}.low_freq_factor", name, name),
             "the scaling divides by their difference");
    constexpr const char* kOriginal = "original_max_position_embeddings";
    scaled.rope_original_seq_len = size_of(field(kOriginal), name + "." + kOriginal);
    return scaled;
  }

  // One style of rotary embedding. A second one must say the same as the first.
  void read_style(const HfJson& style, const std::string& name) {
    if (!style.is_object()) refuse(fmt::format("{} is not an object", name), {});
    config::Model& m = found_.model;
    static constexpr std::string_view kRopeKeys[] = {"rope_type",
                                                     "type",
                                                     "rope_theta",
                                                     "factor",
                                                     "low_freq_factor",
                                                     "high_freq_factor",
                                                     "original_max_position_embeddings",
                                                     "partial_rotary_factor"};
    for (const auto& [key, value] : style.items()) {
      if (!is_among(kRopeKeys, key)) refuse(fmt::format("{}.{} is not known", name, key));
    }
    const std::string type = style.value("rope_type", style.value("type", std::string("default")));
    if (type != "default" && type != "llama3")
      refuse(fmt::format("{}: rope_type \"{}\"", name, type), "Hearth computes the types default and llama3");
    if (style.contains("partial_rotary_factor") && style["partial_rotary_factor"] != 1)
      refuse(fmt::format("{}.partial_rotary_factor = {}", name, style["partial_rotary_factor"].dump()));
    if (style.contains("rope_theta")) set_theta(number(style["rope_theta"], name + ".rope_theta"));
    if (type == "default") return;
    const config::Model scaled = scaled_model(style, name);
    if (is_scaled_ &&
        (scaled.rope_scaling_factor != m.rope_scaling_factor || scaled.rope_low_freq_factor != m.rope_low_freq_factor ||
         scaled.rope_high_freq_factor != m.rope_high_freq_factor ||
         scaled.rope_original_seq_len != m.rope_original_seq_len))
      refuse("rope_parameters and rope_scaling differ", "transformers 4 and 5 would compute different models");
    m = scaled;
    is_scaled_ = true;
  }
  void set_theta(double theta) {
    if (has_theta_ && found_.model.rope_theta != theta)
      refuse(fmt::format("rope_theta is {} in one place and {} in another", found_.model.rope_theta, theta),
             "transformers 4 and 5 would compute different models");
    found_.model.rope_theta = theta;
    has_theta_ = true;
  }

  void read_rope() {
    found_.model.rope_theta = 10000;  // the classes' default
    if (has("rope_theta")) set_theta(number(json_.at("rope_theta"), "rope_theta"));
    int styles = 0;
    for (const char* name : {"rope_parameters", "rope_scaling"}) {
      if (!has(name)) continue;
      const bool before = is_scaled_;
      try {
        read_style(json_.at(name), name);
      } catch (const nlohmann::json::exception&) {
        refuse(fmt::format("{} has a field of another type", name), {});
      }
      if (++styles == 2 && before != is_scaled(name))
        refuse("rope_parameters and rope_scaling differ", "transformers 4 and 5 would compute different models");
    }
  }
  bool is_scaled(const char* name) const {
    const HfJson& style = json_.at(name);
    return style.value("rope_type", style.value("type", std::string("default"))) == "llama3";
  }

  void read_tokens() {
    const auto token = [&](const HfJson& value, const char* name) {
      if (!value.is_number_integer() || value < 0 || value >= found_.model.vocab_size)
        refuse(fmt::format("{} = {} is not a token", name, value.dump()), {});
      return value.get<int64_t>();
    };
    if (has("bos_token_id")) found_.bos = token(json_["bos_token_id"], "bos_token_id");
    if (!has("eos_token_id")) return;
    const HfJson& eos = json_["eos_token_id"];
    if (!eos.is_array())
      found_.eos = {token(eos, "eos_token_id")};
    else
      for (const HfJson& value : eos) found_.eos.push_back(token(value, "eos_token_id"));
  }

  const std::string& origin_;
  std::vector<std::string>& notes_;
  HfJson json_;
  const ModelType* type_ = nullptr;
  Description found_;
  bool has_theta_ = false, is_scaled_ = false;
};

}  // namespace

Description parse_hugging_face_config(std::string_view text, const std::string& origin,
                                      std::vector<std::string>& notes) {
  return ConfigReader(origin, notes).run(text);
}

}  // namespace hearth::convert
