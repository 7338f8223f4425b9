// SPDX-License-Identifier: Apache-2.0
#include "convert/hugging_face/llada.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <iterator>
#include <nlohmann/json.hpp>

#include "base/error.h"
#include "config/families.h"
#include "convert/hugging_face/config.h"
#include "convert/hugging_face/field_values.h"
#include "convert/names.h"
#include "formats/json_object.h"

namespace hearth::convert {
namespace {

using LladaJson = nlohmann::ordered_json;

// The fields that decide what the code computes, with the values of its published models. `is_needed`: the code's own
// default is another one.
struct LladaField {
  const char* name;
  LladaJson value;
  bool is_needed;
};
const std::vector<LladaField>& fixed_fields() {
  static const std::vector<LladaField> kFields = {{"activation_type", "silu", true},
                                                  {"alibi", false, false},
                                                  {"attention_layer_norm", false, false},
                                                  {"bias_for_layer_norm", false, false},
                                                  {"block_group_size", 1, false},
                                                  {"block_type", "llama", true},
                                                  {"include_bias", false, true},
                                                  {"include_qkv_bias", false, false},
                                                  {"input_emb_norm", false, false},
                                                  {"layer_norm_type", "rms", true},
                                                  {"layer_norm_with_affine", true, false},
                                                  {"multi_query_attention", nullptr, false},
                                                  {"rope", true, true},
                                                  {"scale_logits", false, false}};
  return kFields;
}

// Fields that are read, and fields that change nothing that Hearth computes.
constexpr std::string_view kKnownFields[] = {
    "d_model", "n_heads", "n_kv_heads", "n_layers", "mlp_hidden_size", "vocab_size", "embedding_size",
    "max_sequence_length", "rms_norm_eps", "rope_theta", "weight_tying", "mask_token_id", "bos_token_id",
    "eos_token_id",
    // nothing
    "alibi_bias_max", "architectures", "attention_dropout", "attention_layer_norm_with_affine", "auto_map", "dtype",
    "embedding_dropout", "flash_attention", "init_cutoff_factor", "init_device", "init_fn", "init_std", "mlp_ratio",
    "model_type", "pad_token_id", "precision", "residual_dropout", "rope_full_precision", "torch_dtype",
    "transformers_version", "use_cache", "_name_or_path"};

class LladaReader {
 public:
  LladaReader(std::string_view text, const std::string& origin)
      : origin_(origin), json_(formats::parse_json_object(text, origin)) {}

  Description run() const {
    check_fields();
    Description d;
    config::Model& m = d.model;
    config::apply(config::find_family(kLlama), m);
    m.rope_pairs = config::RopePairs::kHalves;
    m.dim = size("d_model");
    m.n_layers = size("n_layers");
    m.n_heads = size("n_heads");
    m.n_kv_heads = has("n_kv_heads") ? size("n_kv_heads") : m.n_heads;
    m.hidden_dim = size("mlp_hidden_size");
    m.vocab_size = size("vocab_size");
    m.norm_eps = number("rms_norm_eps", 1e-5);
    m.rope_theta = number("rope_theta", 10000);
    if (!has("weight_tying") || !json_["weight_tying"].is_boolean()) refuse("has no weight_tying");
    m.enable_weight_tying = json_["weight_tying"].get<bool>();
    d.max_positions = size("max_sequence_length");
    if (m.dim % (2 * m.n_heads) != 0 || m.n_heads % m.n_kv_heads != 0)
      refuse(fmt::format("{} heads, {} of keys, do not divide d_model = {}", m.n_heads, m.n_kv_heads, m.dim));
    if (has("embedding_size") && size("embedding_size") != m.vocab_size) refuse("embedding_size and vocab_size differ");
    d.objective = config::ObjectiveKind::kMaskedDiffusion;
    if (has("mask_token_id")) d.mask = token("mask_token_id", m.vocab_size);
    if (has("bos_token_id")) d.bos = token("bos_token_id", m.vocab_size);
    if (has("eos_token_id")) d.eos = {token("eos_token_id", m.vocab_size)};
    require_allowed(d, origin_);
    return d;
  }

 private:
  [[noreturn]] void refuse(const std::string& what) const {
    throw user_error(fmt::format("{}: {}", origin_, what), "Hearth reads the models of LLaDA's own code", {});
  }
  bool has(const char* name) const { return json_.contains(name) && !json_[name].is_null(); }

  void check_fields() const {
    for (const LladaField& field : fixed_fields()) {
      if (!has(field.name)) {
        if (field.is_needed) refuse(fmt::format("has no {}", field.name));
        continue;
      }
      const nlohmann::json only = field.value;
      const bool off = only.is_null() && json_[field.name] == false;
      if (json_[field.name] != only && !off)
        refuse(fmt::format("{} = {}, and Hearth computes only {}", field.name, json_[field.name].dump(), only.dump()));
    }
    for (const auto& [name, value] : json_.items()) {
      const bool is_fixed = std::any_of(fixed_fields().begin(), fixed_fields().end(),
                                        [&key = name](const auto& field) { return field.name == key; });
      if (!is_fixed && std::find(std::begin(kKnownFields), std::end(kKnownFields), name) == std::end(kKnownFields))
        refuse(fmt::format("field \"{}\" is not known", name));
    }
  }

  int64_t size(const char* name) const {
    if (!has(name)) refuse(fmt::format("has no {}", name));
    return size_in(json_[name], name, 1, [this](const std::string& what) { refuse(what); });
  }
  double number(const char* name, double missing) const {
    if (!has(name)) return missing;
    return positive_in(json_[name], name, [this](const std::string& what) { refuse(what); });
  }
  int64_t token(const char* name, int64_t vocabulary) const {
    const nlohmann::json& value = json_[name];
    if (!value.is_number_integer() || value < 0 || value >= vocabulary)
      refuse(fmt::format("{} = {} is not a token", name, value.dump()));
    return value.get<int64_t>();
  }

  const std::string& origin_;
  const nlohmann::json json_;
};

LladaJson id_or_null(const std::optional<int64_t>& id) { return id ? LladaJson(*id) : LladaJson(); }

// Throws if the code would compute something else.
void require_llada(const Description& d) {
  const config::Model& m = d.model;
  constexpr const char* kFormat = "LLaDA";
  require_llama(m, kFormat, {});
  if (m.head_dim > 0 && m.head_dim * m.n_heads != m.dim)
    throw no_home("model.head_dim", kFormat, "its heads have dim / n_heads elements", "keep the model native");
  if (m.rope_scaling_factor != 1)
    throw no_home("model.rope_scaling_factor", kFormat, "its rotary embedding has no scaling", "keep the model native");
  if (d.shift_logits)
    throw no_home("objective.shift_logits", kFormat, "its logits predict the tokens of their own positions",
                  "keep the model native");
}

}  // namespace

std::string format_llada_config(const Description& d, DType dtype) {
  require_llada(d);
  const config::Model& m = d.model;
  // The code of the published model, in the repository that has it.
  const auto code = [](const char* name) { return fmt::format("GSAI-ML/LLaDA-8B-Base--{}", name); };
  const LladaJson eos = d.eos.empty() ? LladaJson() : LladaJson(d.eos.front());
  LladaJson j = {{"architectures", {"LLaDAModelLM"}},
                 {"model_type", kLladaType},
                 {"auto_map",
                  {{"AutoConfig", code("configuration_llada.LLaDAConfig")},
                   {"AutoModelForCausalLM", code("modeling_llada.LLaDAModelLM")},
                   {"AutoModel", code("modeling_llada.LLaDAModelLM")}}},
                 {"d_model", m.dim},
                 {"n_layers", m.n_layers},
                 {"n_heads", m.n_heads},
                 {"n_kv_heads", m.n_kv_heads > 0 ? m.n_kv_heads : m.n_heads},
                 {"mlp_hidden_size", m.hidden_dim},
                 {"vocab_size", m.vocab_size},
                 {"embedding_size", m.vocab_size},
                 {"max_sequence_length", d.max_positions},
                 {"rms_norm_eps", m.norm_eps},
                 {"rope_theta", m.rope_theta},
                 {"rope_full_precision", true},
                 {"weight_tying", m.enable_weight_tying},
                 {"mask_token_id", id_or_null(d.mask)},
                 {"bos_token_id", id_or_null(d.bos)},
                 {"eos_token_id", eos},
                 {"pad_token_id", eos},
                 {"dtype", dtype_name(dtype)},
                 {"torch_dtype", dtype_name(dtype)}};
  for (const LladaField& field : fixed_fields()) j[field.name] = field.value;
  // What the code reads without a default of its own in every version.
  for (const char* dropout : {"attention_dropout", "embedding_dropout", "residual_dropout"}) j[dropout] = 0.0;
  j["flash_attention"] = j["use_cache"] = false;
  j["init_device"] = "cpu";
  return j.dump(2) + "\n";
}

Description parse_llada_config(std::string_view text, const std::string& origin) {
  return LladaReader(text, origin).run();
}

}  // namespace hearth::convert
