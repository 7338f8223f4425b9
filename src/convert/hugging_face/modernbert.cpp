// SPDX-License-Identifier: Apache-2.0
#include "convert/hugging_face/modernbert.h"

#include <fmt/format.h>

#include <nlohmann/json.hpp>
#include <utility>

#include "base/error.h"
#include "config/derived.h"
#include "convert/hugging_face/field_values.h"

namespace hearth::convert {
namespace {

using UsualJson = nlohmann::json;

// Fields that do not change the logits.
constexpr const char* kNoEffect[] = {
    "classifier_dropout",      "classifier_pooling",        "cls_token_id",           "deterministic_flash_attn",
    "embedding_dropout",       "initializer_cutoff_factor", "layer_norm_eps",         "mlp_dropout",
    "position_embedding_type", "reference_compile",         "repad_logits_with_grad", "sparse_pred_ignore_index",
    "sparse_prediction"};

// Fields that the class does not have, or that transformers 4 does not read: sliding_window would set local_attention.
constexpr const char* kForeign[] = {"hidden_act", "num_key_value_heads", "sliding_window", "sliding_window_pattern",
                                    "use_sliding_window"};

constexpr std::pair<const char*, const char*> kRenamed[] = {
    {"norm_eps", "rms_norm_eps"}, {"global_rope_theta", "rope_theta"}, {"local_rope_theta", "rope_local_base_freq"}};

class FieldReader {
 public:
  FieldReader(const UsualJson& fields, const config::HuggingFaceClass& type, const std::string& origin)
      : json_(fields), type_(type), origin_(origin) {}

  UsualJson run() {
    for (const char* name : kNoEffect) json_.erase(name);
    for (const char* name : kForeign) refuse_given(name);
    for (const auto& [own, usual] : kRenamed) {
      refuse_given(usual);
      if (!json_.contains(own)) continue;
      if (json_.at(own).is_null())
        refuse(fmt::format("{} is null", own), "transformers 4 takes the base of the other layers, and 5 fails");
      json_[usual] = json_.at(own);
      json_.erase(own);
    }
    // transformers 5 scales the positions of all layers, and 4 of none.
    if (json_.contains("rope_scaling") && !json_.at("rope_scaling").is_null())
      refuse("rope_scaling", "transformers 4 and 5 would compute different models");
    const int64_t reach = take("local_attention", 2 * type_.sliding_window) / 2;
    if (reach == 0) refuse("local_attention is below 2", "a position would see itself alone");
    json_["sliding_window"] = reach;
    const int64_t interval = take("global_attn_every_n_layers", type_.full_attention_interval);
    const bool has_types = json_.contains("layer_types") && !json_.at("layer_types").is_null();
    if (interval == 0 && !has_types) refuse("global_attn_every_n_layers = 0", "no layer has this number");
    json_["sliding_window_pattern"] = interval;
    return std::move(json_);
  }

 private:
  [[noreturn]] void refuse(const std::string& what, std::string why = {}) const {
    throw user_error(fmt::format("{}: {}", origin_, what), std::move(why));
  }
  void refuse_given(const char* name) const {
    if (json_.contains(name) && !json_.at(name).is_null())
      refuse(fmt::format("field \"{}\" is not one of {}", name, kModernBertType));
  }
  int64_t take(const char* name, int64_t missing) {
    const auto found = json_.find(name);
    if (found == json_.end()) return missing;
    const int64_t value =
        found->is_null() ? missing : size_in(*found, name, 0, [this](const std::string& what) { refuse(what); });
    json_.erase(name);
    return value;
  }

  UsualJson json_;
  const config::HuggingFaceClass& type_;
  const std::string& origin_;
};

}  // namespace

nlohmann::json with_usual_names(const nlohmann::json& modernbert, const config::HuggingFaceClass& type,
                                const std::string& origin) {
  return FieldReader(modernbert, type, origin).run();
}

nlohmann::ordered_json with_modernbert_names(const nlohmann::ordered_json& usual,
                                             const config::HuggingFaceClass& type) {
  nlohmann::ordered_json fields = usual;
  for (const auto& [own, name] : kRenamed) fields[own] = fields.at(name);
  const bool has_window = fields.contains("sliding_window") && !fields.at("sliding_window").is_null();
  const auto reach = has_window ? fields.at("sliding_window").get<int64_t>() : type.sliding_window;
  fields["local_attention"] = 2 * reach;
  if (fields.at("num_key_value_heads") != fields.at("num_attention_heads"))
    throw user_error(fmt::format("model.n_kv_heads = {} has no home in ModernBERT's format",
                                 fields.at("num_key_value_heads").dump()),
                     "each query has a key of its own there", "keep the model native");
  // transformers 4 knows the interval alone.
  const nlohmann::ordered_json& types = fields.at("layer_types");
  const auto is_global = [&](size_t layer) { return types.at(layer) == config::kFullAttention; };
  size_t interval = 1;
  while (interval < types.size() && !is_global(interval)) ++interval;
  if (!is_global(0) && interval == types.size())
    throw user_error("a window in all layers has no home in ModernBERT's format",
                     "transformers 4 has global_attn_every_n_layers alone", "keep the model native");
  for (size_t layer = 0; layer < types.size(); ++layer) {
    if (is_global(layer) == (layer % interval == 0)) continue;
    throw user_error(
        "layers without a window at other places than every n-th from the first have no home in "
        "ModernBERT's format",
        "transformers 4 has global_attn_every_n_layers alone", "keep the model native");
  }
  fields["global_attn_every_n_layers"] = interval;
  fields["cls_token_id"] = fields.at("bos_token_id");
  const nlohmann::ordered_json& ends = fields.at("eos_token_id");
  fields["sep_token_id"] = ends.is_array() ? ends.at(0) : ends;
  for (const char* name : {"hidden_act", "num_key_value_heads", "rms_norm_eps", "rope_local_base_freq", "rope_scaling",
                           "rope_theta", "sliding_window", "use_cache", "is_causal"})
    fields.erase(name);
  return fields;
}

}  // namespace hearth::convert
