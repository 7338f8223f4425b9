// SPDX-License-Identifier: Apache-2.0
// Latent attention in config.json: DeepSeek-V3, Moonlight and Kimi K2.
#include <fmt/format.h>
#include <gmock/gmock.h>

#include <cmath>
#include <nlohmann/json.hpp>

#include "config/families.h"
#include "convert/hugging_face/config.h"
#include "plan/parameters.h"
#include "support/errors.h"

namespace hearth::convert {
namespace {

using nlohmann::json;
using testing::HasSubstr;

// The fields of the published file, without its quantization.
json deepseek_v3() {
  return json::parse(R"({"architectures": ["DeepseekV3ForCausalLM"], "attention_bias": false, "attention_dropout": 0.0,
      "bos_token_id": 0, "eos_token_id": 1, "ep_size": 1, "first_k_dense_replace": 3, "hidden_act": "silu",
      "hidden_size": 7168, "initializer_range": 0.02, "intermediate_size": 18432, "kv_lora_rank": 512,
      "max_position_embeddings": 163840, "model_type": "deepseek_v3", "moe_intermediate_size": 2048,
      "moe_layer_freq": 1, "n_group": 8, "n_routed_experts": 256, "n_shared_experts": 1, "norm_topk_prob": true,
      "num_attention_heads": 128, "num_experts_per_tok": 8, "num_hidden_layers": 61, "num_key_value_heads": 128,
      "num_nextn_predict_layers": 1, "q_lora_rank": 1536, "qk_nope_head_dim": 128, "qk_rope_head_dim": 64,
      "rms_norm_eps": 1e-06, "rope_scaling": {"beta_fast": 32, "beta_slow": 1, "factor": 40, "mscale": 1.0,
      "mscale_all_dim": 1.0, "original_max_position_embeddings": 4096, "type": "yarn"}, "rope_theta": 10000,
      "routed_scaling_factor": 2.5, "scoring_func": "sigmoid", "tie_word_embeddings": false, "topk_group": 4,
      "topk_method": "noaux_tc", "torch_dtype": "bfloat16", "transformers_version": "4.33.1", "use_cache": true,
      "v_head_dim": 128, "vocab_size": 129280})");
}

Description read_latent(const json& fields) {
  std::vector<std::string> notes;
  return parse_hugging_face_config(fields.dump(), "config.json", notes);
}
json deepseek_with(const char* name, const json& value) {
  json fields = deepseek_v3();
  fields[name] = value;
  return fields;
}
std::string latent_error(const json& fields) {
  return test::error_of([&] { read_latent(fields); }).message();
}

TEST(LatentFields, OfDeepSeekV3AreThoseOfTheFlavor) {
  const Description found = read_latent(deepseek_v3());
  config::Model expected = config::model_of(*config::find_flavor("deepseek_v3", "671B-A37B"));
  config::Model m = found.model;
  EXPECT_EQ(found.prediction_layers, 1);
  EXPECT_EQ(m.vocab_size, 129280);
  expected.vocab_size = m.vocab_size, expected.n_kv_heads = m.n_kv_heads;
  EXPECT_EQ(plan::model_shape(m, 0), plan::model_shape(expected, 0));
  EXPECT_EQ(m.rope_attention_factor, 1);
  const double scale = (0.1 * std::log(40.0) + 1) * (0.1 * std::log(40.0) + 1) / std::sqrt(192.0);
  const plan::ModelShape shape = plan::model_shape(m, 0);
  EXPECT_DOUBLE_EQ(shape.score_scale(shape.layers[0]), scale);
}

TEST(LatentFields, AreWrittenAsTheyWereRead) {
  json fields = deepseek_v3();
  const json written = json::parse(format_hugging_face_config(read_latent(fields), DType::kBFloat16));
  for (const char* name : {"q_lora_rank", "kv_lora_rank", "qk_nope_head_dim", "qk_rope_head_dim", "v_head_dim",
                           "n_group", "topk_group", "routed_scaling_factor", "first_k_dense_replace", "norm_topk_prob",
                           "n_routed_experts", "n_shared_experts", "num_key_value_heads", "moe_intermediate_size",
                           "scoring_func", "topk_method", "moe_layer_freq", "model_type", "architectures"})
    EXPECT_EQ(written[name], fields[name]) << name;
  for (const char* name : {"mscale", "mscale_all_dim", "factor", "beta_fast", "beta_slow"})
    EXPECT_EQ(written["rope_scaling"][name], fields["rope_scaling"][name]) << name;
  EXPECT_EQ(written["rope_parameters"]["attention_factor"], 1);
  EXPECT_EQ(written["num_nextn_predict_layers"], 0);
  EXPECT_FALSE(written.contains("head_dim"));
  const config::Model again = read_latent(written).model, before = read_latent(fields).model;
  EXPECT_EQ(plan::model_shape(again, 0), plan::model_shape(before, 0));
}

// A null says that queries have no latent row; a missing field is the class's 1536.
TEST(LatentFields, OfMoonlightHaveNoLatentOfQueries) {
  json fields = deepseek_v3();
  fields.update(json::parse(R"({"aux_loss_alpha": 0.001, "seq_aux": true, "pretraining_tp": 1, "hidden_size": 2048,
      "intermediate_size": 11264, "max_position_embeddings": 8192, "moe_intermediate_size": 1408, "n_group": 1,
      "topk_group": 1, "n_routed_experts": 64, "n_shared_experts": 2, "num_attention_heads": 16,
      "num_key_value_heads": 16, "num_experts_per_tok": 6, "num_hidden_layers": 27, "num_nextn_predict_layers": 0,
      "q_lora_rank": null, "rms_norm_eps": 1e-05, "rope_theta": 50000.0, "routed_scaling_factor": 2.446,
      "first_k_dense_replace": 1, "vocab_size": 163840, "rope_scaling": null})"));
  const config::Model m = read_latent(fields).model;
  EXPECT_EQ(m.q_lora_rank, 0);
  config::Model expected = config::model_of(*config::find_flavor("deepseek_v3", "16B-A3B"));
  expected.vocab_size = 163840;
  EXPECT_EQ(plan::model_shape(m, 0), plan::model_shape(expected, 0));
  const json written = json::parse(format_hugging_face_config(read_latent(fields), DType::kBFloat16));
  EXPECT_TRUE(written["q_lora_rank"].is_null());
  EXPECT_TRUE(written["rope_scaling"].is_null());
  fields.erase("q_lora_rank");
  EXPECT_EQ(read_latent(fields).model.q_lora_rank, 1536);
}

TEST(LatentFields, OfKimiK2AreTheSameClass) {
  json fields = deepseek_with("model_type", "kimi_k2");
  fields.update(json::parse(R"({"num_attention_heads": 64, "num_key_value_heads": 64, "n_routed_experts": 384,
      "n_group": 1, "topk_group": 1, "first_k_dense_replace": 1, "routed_scaling_factor": 2.827})"));
  const Description found = read_latent(fields);
  EXPECT_EQ(found.model.name, "deepseek_v3");
  EXPECT_EQ(found.model.num_experts, 384);
  EXPECT_EQ(json::parse(format_hugging_face_config(found, DType::kBFloat16))["model_type"], "deepseek_v3");
}

TEST(LatentFields, ThatHearthDoesNotComputeAreRefused) {
  EXPECT_THAT(latent_error(deepseek_with("rope_interleave", false)), HasSubstr("rope_interleave = false"));
  EXPECT_THAT(latent_error(deepseek_with("attention_bias", true)), HasSubstr("attention_bias = true"));
  EXPECT_THAT(latent_error(deepseek_with("kv_lora_rank", 0)), HasSubstr("kv_lora_rank = 0"));
  EXPECT_THAT(latent_error(deepseek_with("num_key_value_heads", 64)),
              HasSubstr("model.n_kv_heads = 64 does not go with"));
  EXPECT_THAT(latent_error(deepseek_with("qk_rope_head_dim", 63)), HasSubstr("model.qk_rope_head_dim = 63 is odd"));
  EXPECT_THAT(latent_error(deepseek_with("v_head_dim", 256)), HasSubstr("model.v_head_dim = 256"));
  EXPECT_THAT(latent_error(deepseek_with("head_dim", 128)), HasSubstr("head_dim = 128, and other fields make it 64"));
  EXPECT_THAT(latent_error(deepseek_with("qk_head_dim", 128)),
              HasSubstr("qk_head_dim = 128, and other fields make it 192"));
  EXPECT_EQ(read_latent(deepseek_with("head_dim", 64)).model.head_dim, 0);
  EXPECT_EQ(read_latent(deepseek_with("qk_head_dim", 192)).model.head_dim, 0);
  EXPECT_THAT(latent_error(deepseek_with("scoring_func", "softmax")), HasSubstr("scoring_func = \"softmax\""));
  EXPECT_THAT(latent_error(deepseek_with("topk_method", "group_limited_greedy")), HasSubstr("topk_method"));
  EXPECT_THAT(latent_error(deepseek_with("moe_layer_freq", 2)), HasSubstr("moe_layer_freq = 2"));
  EXPECT_THAT(
      latent_error(deepseek_with("quantization_config", json::parse(R"({"fmt": "e4m3", "quant_method": "fp8"})"))),
      HasSubstr("quantization_config"));
  json llama = json::parse(R"({"model_type": "llama", "hidden_size": 64, "num_hidden_layers": 1,
      "num_attention_heads": 4, "intermediate_size": 48, "vocab_size": 64})");
  for (const char* name :
       {"kv_lora_rank", "q_lora_rank", "qk_nope_head_dim", "qk_rope_head_dim", "v_head_dim", "qk_head_dim"}) {
    json fields = llama;
    fields[name] = 8;
    EXPECT_THAT(latent_error(fields), HasSubstr(fmt::format("field \"{}\" is not one of llama", name)));
  }
}

// Other classes of transformers read mscale_all_dim for the factor of rotated elements alone.
TEST(LatentFields, ScaleScoresInTheirClassAlone) {
  json fields = json::parse(R"({"model_type": "llama", "hidden_size": 64, "num_hidden_layers": 1,
      "num_attention_heads": 4, "intermediate_size": 48, "vocab_size": 64})");
  fields["rope_scaling"] = deepseek_v3()["rope_scaling"];
  Description found = read_latent(fields);
  EXPECT_EQ(found.model.rope_mscale_all_dim, 0);
  EXPECT_EQ(found.model.rope_attention_factor, 1);
  found.model.rope_mscale_all_dim = 1;
  EXPECT_THAT(test::error_of([&] { format_hugging_face_config(found, DType::kFloat32); }).message(),
              HasSubstr("model.rope_mscale_all_dim = 1 has no home"));
  // A factor that does not follow from mscale is written as it is.
  found = read_latent(deepseek_v3());
  found.model.rope_attention_factor = 0;
  const json style = json::parse(format_hugging_face_config(found, DType::kFloat32))["rope_scaling"];
  EXPECT_EQ(style["mscale_all_dim"], 1);
  EXPECT_FALSE(style.contains("mscale"));
  EXPECT_DOUBLE_EQ(style["attention_factor"].get<double>(), 0.1 * std::log(40.0) + 1);
  EXPECT_EQ(read_latent(json::parse(format_hugging_face_config(found, DType::kFloat32))).model.rope_attention_factor,
            0);
}

// Rows of its matrices are cut as these keys say, also where shapes are equal.
TEST(LatentFields, MakeAnotherModel) {
  config::Model model = config::model_of(*config::find_flavor("deepseek_v3", "16B-A3B"));
  EXPECT_EQ(config::nearest_family(model).name, "deepseek_v3");
  model.name = "llama3";
  EXPECT_EQ(config::nearest_family(model).name, "deepseek_v3");
  EXPECT_THAT(config::differences(config::find_family("glm4_moe"), model),
              testing::Contains("model.kv_lora_rank = 512"));
  for (const char* key : {"kv_lora_rank", "q_lora_rank", "qk_nope_head_dim", "qk_rope_head_dim", "v_head_dim"})
    EXPECT_TRUE(config::is_block_option(fmt::format("model.{}", key))) << key;
  model.kv_lora_rank = 0;
  EXPECT_THAT(config::differences(config::find_family("deepseek_v3"), model),
              testing::Contains("model.kv_lora_rank = 0"));
}

}  // namespace
}  // namespace hearth::convert
