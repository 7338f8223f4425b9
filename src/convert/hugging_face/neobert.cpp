// SPDX-License-Identifier: Apache-2.0
#include "convert/hugging_face/neobert.h"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <nlohmann/json.hpp>
#include <utility>
#include <vector>

#include "base/error.h"
#include "convert/hugging_face/field_values.h"

namespace hearth::convert {
namespace {

using NeoJson = nlohmann::json;

constexpr int64_t kRowMultiple = 8;  // of the matrices of the feed-forward
constexpr double kTheta = 10000;

// Fields that do not change the logits. The class ties no weights, whatever tie_word_embeddings says, and counts
// positions by max_length alone.
constexpr const char* kWithoutEffect[] = {"base_scale",
                                          "classifier_init_range",
                                          "decoder_init_range",
                                          "dim_head",
                                          "dropout",
                                          "embedding_init_range",
                                          "flash_attention",
                                          "kwargs",
                                          "max_position_embeddings",
                                          "pretrained_model_name_or_path",
                                          "tie_word_embeddings",
                                          "trust_remote_code"};

// Fields that would change the logits of another class.
constexpr const char* kOthers[] = {"head_dim",        "layer_types", "num_key_value_heads", "rms_norm_eps",
                                   "rope_parameters", "rope_theta",  "rope_scaling",        "sliding_window"};

// Fields of the class with the only value that Hearth computes.
const std::vector<std::pair<std::string, NeoJson>>& only_values() {
  static const std::vector<std::pair<std::string, NeoJson>> kValues = {
      {"hidden_act", "swiglu"}, {"ngpt", false}, {"rms_norm", true}, {"rope", true}};
  return kValues;
}

NeoJson lower(NeoJson value) {
  if (!value.is_string()) return value;
  auto text = value.get<std::string>();
  std::transform(text.begin(), text.end(), text.begin(),
                 [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
  return text;
}

void rename(NeoJson& fields, const char* from, const char* to) {
  if (!fields.contains(from)) return;
  fields[to] = fields.at(from);
  fields.erase(from);
}

[[noreturn]] void refuse_model(const std::string& what, const std::string& why) {
  throw user_error(fmt::format("{} has no home in NeoBERT's format", what), why, "keep the model native");
}

}  // namespace

NeoJson from_neobert_names(const NeoJson& neobert, const std::string& origin) {
  const auto refuse = [&](const std::string& what) {
    throw user_error(fmt::format("{}: {}", origin, what), "Hearth would compute something else than this model");
  };
  NeoJson fields = neobert;
  const auto has = [&](const std::string& name) { return fields.contains(name) && !fields.at(name).is_null(); };
  const auto size = [&](const char* name) { return size_in(fields.at(name), name, 1, refuse); };
  for (const auto& [name, only] : only_values()) {
    if (has(name) && lower(fields.at(name)) != only)
      refuse(fmt::format("{} = {}, and not {}", name, fields.at(name).dump(), only.dump()));
    fields.erase(name);
  }
  for (const char* name : kOthers)
    if (has(name)) refuse(fmt::format("field \"{}\" is not one of {}", name, kNeoBertType));
  if (has("dim_head") && has("hidden_size") && has("num_attention_heads") &&
      size("dim_head") != size("hidden_size") / size("num_attention_heads"))
    refuse(fmt::format("dim_head = {} is not hidden_size / num_attention_heads", fields.at("dim_head").dump()));
  for (const char* name : kWithoutEffect) fields.erase(name);
  if (has("intermediate_size")) {
    const int64_t rows = 2 * size("intermediate_size") / 3;
    fields["intermediate_size"] = (rows + kRowMultiple - 1) / kRowMultiple * kRowMultiple;
  }
  rename(fields, "norm_eps", "rms_norm_eps");
  rename(fields, "max_length", "max_position_embeddings");
  return fields;
}

nlohmann::ordered_json to_neobert_names(const nlohmann::ordered_json& usual) {
  nlohmann::ordered_json fields = usual;
  const auto shown = [&](const char* name) { return fields.at(name).dump(); };
  if (fields.at("num_key_value_heads") != fields.at("num_attention_heads"))
    refuse_model("model.n_kv_heads = " + shown("num_key_value_heads"), "each query has a key of its own there");
  if (fields.at("tie_word_embeddings") == true)
    refuse_model("model.enable_weight_tying", "its code has an output matrix of its own");
  if (fields.at("rope_theta") != kTheta)
    refuse_model("model.rope_theta = " + shown("rope_theta"), fmt::format("its code rotates by {}", kTheta));
  const auto rows = fields.at("intermediate_size").get<int64_t>();
  if (rows % kRowMultiple != 0)
    refuse_model(fmt::format("model.hidden_dim = {}", rows),
                 fmt::format("its code makes it a multiple of {}", kRowMultiple));
  fields["intermediate_size"] = rows / 2 * 3;
  fields["norm_eps"] = fields.at("rms_norm_eps");
  fields["max_length"] = fields.at("max_position_embeddings");
  fields["dim_head"] = fields.at("hidden_size").get<int64_t>() / fields.at("num_attention_heads").get<int64_t>();
  for (const char* name : {"attention_dropout", "hidden_act", "initializer_range", "is_causal",
                           "max_position_embeddings", "num_key_value_heads", "rms_norm_eps", "rope_parameters",
                           "rope_scaling", "rope_theta", "tie_word_embeddings", "use_cache"})
    fields.erase(name);
  // The code of the published model, in the repository that has it.
  const auto code = [](const char* name) { return fmt::format("chandar-lab/NeoBERT--model.{}", name); };
  fields["auto_map"] = {{"AutoConfig", code("NeoBERTConfig")},
                        {"AutoModel", code("NeoBERT")},
                        {"AutoModelForMaskedLM", code("NeoBERTLMHead")},
                        {"AutoModelForSequenceClassification", code("NeoBERTForSequenceClassification")}};
  return fields;
}

}  // namespace hearth::convert
