// SPDX-License-Identifier: Apache-2.0
#include "convert/hugging_face/config.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>
#include <type_traits>
#include <variant>

#include "base/error.h"
#include "base/quantity.h"
#include "base/text.h"
#include "config/derived.h"
#include "config/families.h"
#include "config/fields.h"
#include "convert/hugging_face/experts.h"
#include "convert/hugging_face/field_values.h"
#include "convert/hugging_face/latent.h"
#include "convert/hugging_face/layers.h"
#include "convert/hugging_face/llada.h"
#include "convert/hugging_face/modernbert.h"
#include "convert/hugging_face/neobert.h"
#include "convert/hugging_face/rope.h"
#include "convert/hugging_face/tokens.h"
#include "formats/json_object.h"

namespace hearth::convert {
namespace {

using HfJson = nlohmann::json;

constexpr const char* kOtherModel = "Hearth would compute something else than this model";

constexpr const char* kAttentionTypes = "attn_type_list";
constexpr const char* kMup = "mup_enabled";
constexpr const char* kWindowPatterns[] = {"sliding_window_pattern", kGlobalInterval};

class ConfigReader {
 public:
  ConfigReader(const std::string& origin, std::vector<std::string>& notes) : origin_(origin), notes_(notes) {}

  Description run(std::string_view text) {
    json_ = formats::parse_json_object(text, origin_);
    if (has("text_config")) enter_text_config();
    family_ = &find_family();
    if (type().model_type == kModernBertType) json_ = with_usual_names(json_, type(), origin_);
    if (type().model_type == kNeoBertType) json_ = from_neobert_names(json_, origin_);
    for (const auto& [name, value] : json_.items()) check_field(name, value);
    read_sizes();
    read_rope(json_, type(), found_.max_positions, origin_, found_.model);
    read_window();
    read_no_rope();
    read_multipliers();
    read_experts(json_, type(), found_.model, [this](const std::string& what) { refuse(what); });
    read_tokens(json_, found_, [this](const std::string& what) { refuse(what, {}); });
    read_objective();
    read_code();
    require_allowed(found_, origin_);
    return std::move(found_);
  }

 private:
  [[noreturn]] void refuse(const std::string& what, std::string why = kOtherModel, std::string fix = {}) const {
    throw user_error(fmt::format("{}: {}", origin_, what), std::move(why), std::move(fix));
  }
  bool has(const std::string& name) const { return json_.contains(name) && !json_.at(name).is_null(); }

  // The fields of a text model within a model of text and pictures. Its file has them in an object. transformers ties
  // the output matrix of the whole model by the outer field, and quantizes the whole model by another.
  void enter_text_config() {
    const HfJson outer = std::move(json_);
    const auto type = outer.find("model_type");
    found_.tower_of = type != outer.end() && type->is_string() ? type->get<std::string>() : "unknown";
    json_ = outer.at("text_config");
    if (!json_.is_object()) refuse("text_config is not an object", {});
    for (const char* shared : {"tie_word_embeddings", "bos_token_id", "eos_token_id", "quantization_config"})
      if (const auto value = outer.find(shared); value != outer.end() && !value->is_null()) json_[shared] = *value;
    notes_.push_back(fmt::format("model_type \"{}\": its text model is read alone", found_.tower_of));
  }

  const config::Family& find_family() const {
    const bool has_type = json_.contains("model_type") && json_["model_type"].is_string();
    const std::string name = has_type ? json_["model_type"].get<std::string>() : std::string();
    std::vector<std::string> known;
    for (const config::Family& family : config::families()) {
      const std::vector<std::string>& others = family.hugging_face.other_types;
      if (family.hugging_face.model_type == name) return family;
      if (std::find(others.begin(), others.end(), name) != others.end()) return family;
      known.push_back(family.hugging_face.model_type);
    }
    refuse(name.empty() ? "has no model_type" : fmt::format("model_type \"{}\" is not one that Hearth computes", name),
           fmt::format("known types: {}", join(known)));
  }
  const config::HuggingFaceClass& type() const { return family_->hugging_face; }

  void check_field(const std::string& name, const HfJson& value) const {
    if (is_key(type(), name) || (name == "quantization_config" && is_mxfp4(type(), value))) return;
    const FieldRule rule = hugging_face_field(name);
    if (rule.effect == FieldEffect::kNone || rule.effect == FieldEffect::kRead) return;
    if (means_the_only_value(type(), name, value)) return;
    // A field of the family has the family's value: its blocks compute that one. A null is false.
    const std::vector<config::Setting>& writes = type().writes;
    const auto own = std::find_if(writes.begin(), writes.end(), [&](const auto& field) { return field.key == name; });
    if (own != writes.end()) {
      const HfJson only = std::visit([](const auto& v) { return HfJson(v); }, own->value);
      if (value == only || (value.is_null() && only == false)) return;
      refuse(fmt::format("{} = {}", name, value.dump()),
             fmt::format("Hearth computes {} only with {}", type().model_type, only.dump()));
    }
    if (rule.effect == FieldEffect::kUnknown && is_key_of_others(name))
      refuse(fmt::format("field \"{}\" is not one of {}", name, type().model_type));
    if (rule.effect == FieldEffect::kUnknown)
      refuse(fmt::format("field \"{}\" is not known", name), "it could change what the model computes",
             "remove it from a copy of the file, if you know that it does not");
    const HfJson allowed = HfJson::parse(rule.values);
    if (value.is_null() || is_allowed(value, allowed, /*is_of_layers=*/name == kAttentionTypes)) return;
    refuse(fmt::format("{} = {}", name, value.dump()),
           fmt::format("Hearth computes this model only with {}", allowed.empty() ? "null" : allowed[0].dump()),
           name == "quantization_config" ? "take the model as it was before, or what transformers' dequantize() gives"
                                         : "");
  }

  int64_t integer(const std::string& name, int64_t missing = -1) const {
    if (!has(name)) {
      if (missing < 0) refuse(fmt::format("has no {}", name), {});
      return missing;
    }
    return size_of(json_.at(name), name);
  }
  int64_t size_of(const HfJson& value, const std::string& name) const {
    return size_in(value, name, 0, [this](const std::string& what) { refuse(what, {}); });
  }
  double number(const HfJson& value, const std::string& name) const {
    return positive_in(value, name, [this](const std::string& what) { refuse(what, {}); });
  }

  bool flag(const std::string& name, bool missing) const {
    if (!has(name)) return missing;
    if (!json_.at(name).is_boolean()) refuse(fmt::format("{} is neither true nor false", name), {});
    return json_.at(name).get<bool>();
  }

  void read_sizes() {
    config::Model& m = found_.model;
    m.dim = integer("hidden_size");
    m.n_layers = integer("num_hidden_layers");
    const auto size = [&](const char* name, int64_t of_class) { return integer(name, of_class > 0 ? of_class : -1); };
    m.n_heads = size("num_attention_heads", type().num_attention_heads);
    m.hidden_dim = integer("intermediate_size");
    m.vocab_size = size("vocab_size", type().vocab_size);
    if (m.dim < 1 || m.n_layers < 1 || m.n_heads < 1 || m.hidden_dim < 1 || m.vocab_size < 1)
      refuse("a size of the model is 0", {});
    const config::Limits& layers = config::find_field("model.n_layers")->limits;
    if (!layers.allow(config::Value(m.n_layers)))  // before lists of layers are made
      refuse(fmt::format("model.n_layers would be {}", m.n_layers), fmt::format("it may be {}", layers.text()));
    // A null is no missing field: every class takes the number of query heads for it.
    const int64_t class_heads = type().num_key_value_heads;
    const bool has_default = class_heads > 0 && !json_.contains("num_key_value_heads");
    m.n_kv_heads = integer("num_key_value_heads", has_default ? class_heads : m.n_heads);
    if (m.n_kv_heads == 0 || m.n_heads % m.n_kv_heads != 0)
      refuse(fmt::format("num_attention_heads = {} is not a multiple of num_key_value_heads = {}", m.n_heads,
                         m.n_kv_heads),
             has_default ? fmt::format("the file has no num_key_value_heads, and {}'s default is {}", type().model_type,
                                       class_heads)
                         : std::string());
    if (!is_key(type(), kLatent)) read_width();
    m.norm_eps = has("rms_norm_eps") ? number(json_.at("rms_norm_eps"), "rms_norm_eps") : type().rms_norm_eps;
    config::apply(*family_, m);
    read_keys();
    check_latent_fields(json_, type(), m, [this](const std::string& what) { refuse(what); });
    m.rope_pairs = type().rope_pairs;
    m.enable_weight_tying = flag("tie_word_embeddings", type().tie_word_embeddings);
    found_.max_positions = integer("max_position_embeddings", type().max_position_embeddings);
  }

  void read_width() {
    config::Model& m = found_.model;
    const int64_t width = integer("head_dim", type().head_dim > 0 ? type().head_dim : m.dim / m.n_heads);
    if (m.dim % m.n_heads != 0 || width != m.dim / m.n_heads) m.head_dim = width;
    if (width == 0 || width % 2 != 0 || (m.head_dim > 0 && !type().has_head_dim))
      refuse(fmt::format("heads of width {}", width));
  }

  static bool is_key(const config::HuggingFaceClass& type, const std::string& name) {
    return std::any_of(type.keys.begin(), type.keys.end(), [&](const auto& key) { return key.field == name; });
  }
  static bool is_key_of_others(const std::string& name) {
    const std::vector<config::Family>& all = config::families();
    return std::any_of(all.begin(), all.end(), [&](const auto& family) { return is_key(family.hugging_face, name); });
  }
  // The fields that are keys, and further layers, which are left out.
  void read_keys() {
    const auto read = [&](const std::string& name, const auto& missing) -> config::Value {
      using Type = std::decay_t<decltype(missing)>;
      if constexpr (std::is_same_v<Type, bool>) return flag(name, missing);
      if (name == kQueryLatent && json_.contains(name) && !has(name)) return int64_t{0};  // null: no latent of queries
      if constexpr (std::is_same_v<Type, int64_t>) return integer(name, missing);
      if constexpr (std::is_same_v<Type, double>) return has(name) ? number(json_.at(name), name) : missing;
      return missing;
    };
    for (const config::FieldKey& key : type().keys) {
      const auto value = std::visit([&](const auto& missing) { return read(key.field, missing); }, key.missing);
      config::set_key(found_.model, key.key, value);
    }
    for (const char* name : {"num_nextn_predict_layers", "num_mtp_modules"}) {
      if (name == type().prediction_layers)
        found_.prediction_layers = integer(name, 0);
      else if (has(name))
        refuse(fmt::format("field \"{}\" is not one of {}", name, type().model_type));
    }
  }

  int64_t full_interval() const {
    const std::string& field = type().window_pattern;
    if (field.empty()) return type().full_attention_interval;
    if (!type().full_layers_rotate && json_.contains(field) && !has(field) && has("sliding_window"))
      refuse(fmt::format("{} is null", field), "transformers fails without layer_types", "give layer_types");
    return integer(field, type().full_attention_interval);
  }

  // For each layer whether its positions see a window only.
  std::vector<bool> windowed_layers() const {
    const int64_t L = found_.model.n_layers;
    std::vector<bool> windowed;
    if (has("layer_types")) {
      for (const HfJson& layer : json_.at("layer_types")) {
        if (layer != config::kFullAttention && layer != config::kSlidingAttention)
          refuse(fmt::format("layer_types has {}", layer.dump()));
        windowed.push_back(layer == config::kSlidingAttention);
      }
      if (std::ssize(windowed) != L)
        refuse(fmt::format("layer_types has {}, and the model {}", hearth::counted(std::ssize(windowed), "layer"), L),
               {});
      return windowed;
    }
    const int64_t interval = full_interval(), of_class = type().first_full_attention_layer;
    const int64_t full = of_class < 0 ? interval - 1 : of_class;  // within each interval
    const bool counts_layers = type().window != config::SlidingWindowUse::kByLayer;
    const int64_t first = counts_layers ? integer("max_window_layers", type().max_window_layers) : 0;
    for (int64_t layer = 0; layer < L; ++layer)
      windowed.push_back(layer >= first && (interval == 0 || layer % interval != full));
    return windowed;
  }

  // Tokens that a position sees back to, itself included; 0: all.
  int64_t window() const {
    using enum config::SlidingWindowUse;
    const bool is_switched = type().window == kSwitched, by_layer = config::names_windowed_layers(type().window);
    const std::vector<bool> windowed = by_layer || has("layer_types") ? windowed_layers() : std::vector<bool>{};
    const bool some = std::find(windowed.begin(), windowed.end(), true) != windowed.end();
    const bool used = is_switched ? flag("use_sliding_window", false)
                                  : flag("use_sliding_window", true) || by_layer || type().window == kAlways;
    if (has("layer_types") && some && (!by_layer || !used))
      refuse("layer_types has a layer without full_attention",
             is_switched ? "use_sliding_window is false, and transformers refuses both together" : kOtherModel);
    if (!used || (by_layer && !some)) return 0;
    const int64_t length = json_.contains("sliding_window") ? integer("sliding_window", 0) : type().sliding_window;
    if (length == 0 && has("layer_types") && some && !has("sliding_window"))
      refuse("layer_types has a layer with a window, and sliding_window is null", "transformers fails");
    if (length == 0 && has("sliding_window") && type().window != kNever)
      refuse("sliding_window = 0", "no position would see a token: write null for no window");
    return length;
  }

  // The keys stay also where no sequence of the model reaches its window: a training may have longer ones.
  void read_window() {
    using enum config::SlidingWindowUse;
    config::Model& m = found_.model;
    const int64_t length = window();
    if (length == 0) {
      m.rope_local_theta = 0;  // no layer has it
      return;
    }
    if (type().window == kNever) {
      if (length < found_.max_positions) refuse(fmt::format("sliding_window = {}", length));
      return;
    }
    // With is_causal = false transformers takes it for the reach to each side.
    m.sliding_window = is_causal() ? length : 2 * length;
    if (type().window != kAlways) set_layer_types(m, windowed_layers());
    if (length < found_.max_positions)
      notes_.push_back(fmt::format("model.sliding_window = {} in {} of {} layers", m.sliding_window,
                                   config::count_windowed_layers(m), m.n_layers));
  }
  // transformers 5 obeys is_causal for every class. Encoders have no such field.
  bool is_causal() const {
    if (type().is_encoder && has("is_causal"))
      refuse(fmt::format("field \"is_causal\" is not one of {}", type().model_type));
    return !type().is_encoder && flag("is_causal", true);
  }
  void read_objective() {
    if (is_causal()) return;
    found_.objective = config::ObjectiveKind::kMaskedLm;
    if (type().is_encoder) return;
    notes_.emplace_back(
        "is_causal = false: a position sees all others, as in transformers 5; transformers 4 ignores the field");
  }

  void read_code() {
    if (has("auto_map"))
      notes_.push_back(
          fmt::format("auto_map names code of this folder, which is not run: the model is computed as "
                      "model_type \"{}\"",
                      type().model_type));
  }

  // EXAONE 4: with a window, layers that do not have it do not rotate. Trinity: the same by the layers' types alone.
  void read_rotation_by_window() {
    config::Model& m = found_.model;
    const bool given = json_.contains("sliding_window") ? has("sliding_window") : type().sliding_window > 0;
    if (!given && type().window_pattern == kGlobalInterval) refuse("sliding_window is null");
    if (!given) return;
    if (integer("sliding_window", type().sliding_window) == 0) refuse("sliding_window = 0");
    const int64_t windowed = config::count_windowed_layers(m);
    if (windowed == m.n_layers) return;
    m.no_rope_layer_interval = windowed == 0 ? 1 : m.full_attention_interval;
    if (m.no_rope_layer_interval == 0 || m.first_full_attention_layer >= 0)
      refuse("layer_types has layers without a window at other places than every n-th",
             "they do not rotate, and Hearth computes every n-th layer without rotation");
  }

  // SmolLM3's layers without rotation: a list of 0 and 1, or every n-th layer.
  void read_no_rope() {
    if (!type().full_layers_rotate) read_rotation_by_window();
    if (type().no_rope_layer_interval == 0) {
      for (const char* name : {"no_rope_layers", "no_rope_layer_interval"})
        if (has(name)) refuse(fmt::format("field \"{}\" is not one of {}", name, type().model_type));
      return;
    }
    config::Model& m = found_.model;
    m.no_rope_layer_interval = integer("no_rope_layer_interval", type().no_rope_layer_interval);
    if (m.no_rope_layer_interval == 0 && !has("no_rope_layers")) refuse("no_rope_layer_interval = 0", {});
    if (!has("no_rope_layers")) return;
    const HfJson& layers = json_.at("no_rope_layers");
    if (!layers.is_array() || std::ssize(layers) < m.n_layers)
      refuse(fmt::format("no_rope_layers is no list of {}", hearth::counted(m.n_layers, "layer")), {});
    const auto rotates = [&](int64_t layer) { return layers[static_cast<size_t>(layer)] != 0; };
    int64_t first = 0;
    while (first < m.n_layers && rotates(first)) ++first;
    m.no_rope_layer_interval = first < m.n_layers ? first + 1 : 0;
    for (int64_t layer = first; layer < m.n_layers; ++layer) {
      if (rotates(layer) != ((layer + 1) % m.no_rope_layer_interval != 0))
        refuse(fmt::format("no_rope_layers = {}", layers.dump()), "Hearth computes every n-th layer without rotation");
    }
  }

  void read_multipliers() {
    config::Model& m = found_.model;
    const auto require = [&](const char* name, bool is_known) {
      if (has(name) && !is_known) refuse(fmt::format("field \"{}\" is not one of {}", name, type().model_type));
    };
    require("query_pre_attn_scalar", type().query_pre_attn_scalar > 0);
    require(kMup, type().has_mup);
    for (const char* name : kWindowPatterns) require(name, name == type().window_pattern);
    if (type().scales_embeddings || (type().has_mup && flag(kMup, false)))
      m.embedding_multiplier = std::sqrt(static_cast<double>(m.dim));
    if (type().query_pre_attn_scalar > 0) {
      const int64_t scalar = integer("query_pre_attn_scalar", type().query_pre_attn_scalar);
      if (scalar == 0) refuse("query_pre_attn_scalar = 0", {});
      m.attention_multiplier = scalar == head_width(m) ? 0 : 1 / std::sqrt(static_cast<double>(scalar));
    }
    // Granite's.
    for (const auto& [name, member] :
         {std::pair("embedding_multiplier", &m.embedding_multiplier),
          std::pair("residual_multiplier", &m.residual_multiplier),
          std::pair("attention_multiplier", &m.attention_multiplier), std::pair("logits_scaling", &m.logits_divisor)}) {
      if (has(name) && !type().has_multipliers)
        refuse(fmt::format("field \"{}\" is not one of {}", name, type().model_type));
      if (type().has_multipliers) *member = has(name) ? number(json_.at(name), name) : 1;
    }
  }

  const std::string& origin_;
  std::vector<std::string>& notes_;
  HfJson json_;
  const config::Family* family_ = nullptr;
  Description found_;
};

}  // namespace

Description parse_hugging_face_config(std::string_view text, const std::string& origin,
                                      std::vector<std::string>& notes) {
  if (const nlohmann::json json = formats::parse_json_object(text, origin);
      json.contains("model_type") && json["model_type"] == kLladaType)
    return parse_llada_config(text, origin);
  return ConfigReader(origin, notes).run(text);
}

}  // namespace hearth::convert
