// SPDX-License-Identifier: Apache-2.0
// Mixtures of experts in config.json, and the names of experts' weights.
#include <fmt/format.h>
#include <gmock/gmock.h>

#include "config/derived.h"
#include "convert/hugging_face/config.h"
#include "convert/names.h"
#include "support/errors.h"

namespace hearth::convert {
namespace {

using testing::HasSubstr;

config::Model read(const std::string& type, const std::string& fields) {
  std::vector<std::string> notes;
  return parse_hugging_face_config(R"({"model_type": ")" + type + R"(", "hidden_size": 64, "num_hidden_layers": 3,
                                       "num_attention_heads": 8, "intermediate_size": 48, "vocab_size": 64)" +
                                       fields + "}",
                                   "config.json", notes)
      .model;
}
// What the class has no default for, and a number of heads that divides 8.
constexpr const char* kDots = R"(, "num_key_value_heads": 8, "n_routed_experts": 16, "num_experts_per_tok": 2)";

std::string error(const std::string& type, const std::string& fields) {
  return test::error_of([&] { read(type, fields); }).message();
}

TEST(ExpertFields, AreThoseOfTheClass) {
  const config::Model plain = read("qwen3_moe", "");  // the class's defaults
  EXPECT_EQ(plain.num_experts, 128);
  EXPECT_EQ(plain.moe_top_k, 8);
  EXPECT_EQ(plain.moe_hidden_dim, 768);
  EXPECT_TRUE(plain.qk_norm);
  EXPECT_FALSE(plain.route_norm);  // published models have the field
  const config::Model qwen = read("qwen3_moe", R"(, "num_experts": 6, "num_experts_per_tok": 3, "norm_topk_prob": false,
      "moe_intermediate_size": 24, "mlp_only_layers": [0, 1], "decoder_sparse_step": 1)");
  EXPECT_EQ(qwen.num_experts, 6);
  EXPECT_EQ(qwen.moe_top_k, 3);
  EXPECT_EQ(qwen.moe_hidden_dim, 24);
  EXPECT_EQ(qwen.n_dense_layers, 2);
  EXPECT_FALSE(qwen.route_norm);
  EXPECT_TRUE(read("mixtral", R"(, "num_local_experts": 6)").route_norm);  // it always divides
  EXPECT_EQ(read("mixtral", R"(, "num_local_experts": 6)").moe_hidden_dim, 0);
  EXPECT_FALSE(read("olmoe", "").route_norm);
  const config::Model glm = read("glm4_moe", "");
  EXPECT_EQ(glm.num_experts, 128);
  EXPECT_EQ(glm.num_shared_experts, 1);
  EXPECT_EQ(glm.n_dense_layers, 1);
  EXPECT_EQ(glm.partial_rotary_factor, 0.5);
  EXPECT_TRUE(glm.route_norm && glm.expert_bias && glm.score_func == config::ScoreFunc::kSigmoid);
  EXPECT_FALSE(glm.qkv_bias || glm.qk_norm);
  const config::Model larger = read("glm4_moe", R"(, "n_routed_experts": 16, "num_local_experts": 16, "n_group": 4,
      "topk_group": 2, "routed_scaling_factor": 2.5, "first_k_dense_replace": 2, "n_shared_experts": 0,
      "norm_topk_prob": false, "attention_bias": true, "use_qk_norm": true, "partial_rotary_factor": 1.0)");
  EXPECT_EQ(larger.num_experts, 16);
  EXPECT_EQ(larger.num_expert_groups, 4);
  EXPECT_EQ(larger.num_limited_groups, 2);
  EXPECT_EQ(larger.route_scale, 2.5);
  EXPECT_EQ(larger.n_dense_layers, 2);
  EXPECT_EQ(larger.num_shared_experts, 0);
  EXPECT_EQ(larger.partial_rotary_factor, 1);
  EXPECT_TRUE(!larger.route_norm && larger.qkv_bias && larger.qk_norm);
  const config::Model dots = read("dots1", kDots);
  EXPECT_TRUE(dots.qk_norm && dots.expert_bias && dots.score_func == config::ScoreFunc::kSigmoid);
  EXPECT_FALSE(dots.route_norm || dots.qkv_bias);
  EXPECT_EQ(dots.n_dense_layers, 0);
  EXPECT_EQ(dots.num_shared_experts, 0);
  EXPECT_EQ(dots.moe_hidden_dim, 1408);
  EXPECT_EQ(dots.sliding_window, 0);  // the class's begins at the layer after its last
  // transformers 5 writes Qwen's number of experts by Mixtral's name.
  EXPECT_EQ(read("qwen3_moe", R"(, "num_local_experts": 6, "num_experts_per_tok": 2)").num_experts, 6);
}

TEST(ExpertFields, ThatHearthDoesNotComputeAreRefused) {
  EXPECT_THAT(error("qwen3_moe", R"(, "num_experts": 6, "num_local_experts": 7, "num_experts_per_tok": 2)"),
              HasSubstr("num_experts and num_local_experts differ"));
  EXPECT_THAT(error("qwen3_moe", R"(, "decoder_sparse_step": 2)"), HasSubstr("decoder_sparse_step = 2"));
  for (const char* layers : {"[1]", "[0, 2]", "[0, 1, 2]", "2"})
    EXPECT_THAT(error("qwen3_moe", fmt::format(R"(, "mlp_only_layers": {})", layers)), HasSubstr("mlp_only_layers = "))
        << layers;
  EXPECT_THAT(error("qwen3_moe", R"(, "norm_topk_prob": 1)"), HasSubstr("norm_topk_prob is neither true nor false"));
  EXPECT_THAT(error("qwen3_moe", R"(, "num_experts": 0)"), HasSubstr("num_experts = 0 is not a size"));
  EXPECT_THAT(error("qwen3_moe", R"(, "num_experts": 4)"), HasSubstr("model.moe_top_k"));
  EXPECT_THAT(error("glm4_moe", R"(, "n_group": 3, "topk_group": 1)"), HasSubstr("model.num_expert_groups"));
  EXPECT_THAT(error("glm4_moe", R"(, "n_group": 16, "topk_group": 1, "num_experts_per_tok": 9)"),
              HasSubstr("1 group of 8 experts have 8"));
  EXPECT_THAT(error("glm4_moe", R"(, "n_routed_experts": 6, "num_experts": 7, "num_experts_per_tok": 2)"),
              HasSubstr("num_experts and n_routed_experts differ"));
  for (const char* field : {"n_shared_experts", "n_group", "topk_group", "routed_scaling_factor", "n_routed_experts",
                            "first_k_dense_replace", "use_qk_norm", "num_nextn_predict_layers"})
    EXPECT_THAT(error("qwen3_moe", fmt::format(R"(, "{}": 1)", field)),
                HasSubstr(fmt::format("field \"{}\" is not one of qwen3_moe", field)));
  EXPECT_THAT(error("dots1", R"(, "num_key_value_heads": 8, "num_experts_per_tok": 2)"),
              HasSubstr("has no n_routed_experts"));
  EXPECT_THAT(error("dots1", R"(, "num_key_value_heads": 8, "n_routed_experts": 4)"),
              HasSubstr("has no num_experts_per_tok"));
  for (const char* field : {R"("attention_bias": true)", R"("moe_layer_freq": 2)", R"("scoring_func": "softmax")",
                            R"("topk_method": "greedy")", R"("use_qk_norm": true)", R"("partial_rotary_factor": 0.5)"})
    EXPECT_THAT(error("dots1", fmt::format("{}, {}", kDots, field)),
                HasSubstr(std::string(field).substr(1, std::string(field).find('"', 1) - 1)))
        << field;
  EXPECT_THAT(error("mixtral", R"(, "router_jitter_noise": 0.1)"), HasSubstr("router_jitter_noise = 0.1"));
  for (const char* field : {"num_experts", "num_local_experts", "num_experts_per_tok", "moe_intermediate_size"})
    EXPECT_THAT(error("llama", fmt::format(R"(, "{}": 8)", field)),
                HasSubstr(fmt::format("field \"{}\" is not one of llama", field)));
  EXPECT_THAT(error("mixtral", R"(, "moe_intermediate_size": 8)"), HasSubstr("is not one of mixtral"));
}

// Fields of the released files.
TEST(ExpertFields, OfGptOssAreThoseOfItsReleasedFiles) {
  const std::string rope = R"(, "rope_theta": 150000, "rope_scaling": {"beta_fast": 32.0, "beta_slow": 1.0,
      "factor": 32.0, "original_max_position_embeddings": 4096, "rope_type": "yarn", "truncate": false})";
  const std::string released = rope + R"(, "num_key_value_heads": 8, "head_dim": 16, "attention_bias": true,
      "experts_per_token": 2, "num_experts_per_tok": 2, "num_local_experts": 4, "initial_context_length": 4096,
      "swiglu_limit": 7.0, "sliding_window": 128, "router_aux_loss_coef": 0.9, "output_router_logits": false,
      "layer_types": ["sliding_attention", "full_attention", "sliding_attention"], "hidden_act": "silu",
      "quantization_config": {"quant_method": "mxfp4", "modules_to_not_convert": ["lm_head"]})";
  const config::Model m = read("gpt_oss", released);
  EXPECT_TRUE(m.attention_sinks && m.router_bias && m.ffn_bias && m.qkv_bias && m.output_bias && m.route_norm);
  EXPECT_EQ(m.activation, config::Activation::kClampedSwiglu);
  EXPECT_EQ(m.num_experts, 4);
  EXPECT_EQ(m.moe_top_k, 2);
  EXPECT_EQ(m.hidden_dim, 48);
  EXPECT_EQ(m.sliding_window, 128);
  EXPECT_EQ(m.full_attention_interval, 2);
  EXPECT_EQ(m.rope_scaling_factor, 32);
  EXPECT_FALSE(m.rope_truncate);
  EXPECT_THAT(error("gpt_oss", ""), HasSubstr("has no rope_parameters"));
  for (const char* field : {"swiglu_limit", "swiglu_alpha", "attention_bias"})
    EXPECT_THAT(error("gpt_oss", fmt::format("{}, \"{}\": 6.5", rope, field)),
                HasSubstr(fmt::format("{} = 6.5", field)));
  EXPECT_THAT(error("gpt_oss", rope + R"(, "num_experts_per_tok": 4, "experts_per_token": 2)"),
              HasSubstr("num_experts_per_tok and experts_per_token differ"));
  EXPECT_THAT(error("gpt_oss", rope + R"(, "quantization_config": {"quant_method": "mxfp4", "bits": 3})"),
              HasSubstr("quantization_config = "));
  EXPECT_THAT(error("mixtral", R"(, "quantization_config": {"quant_method": "mxfp4"})"),
              HasSubstr("quantization_config = "));
  EXPECT_THAT(error("mixtral", R"(, "experts_per_token": 2)"), HasSubstr("is not one of mixtral"));
  EXPECT_THAT(error("llama", R"(, "swiglu_limit": 7.0)"), HasSubstr("swiglu_limit = 7.0"));
}

// The fields of its published files.
TEST(ExpertFields, OfMiniMaxSayHowManyElementsOfAHeadRotate) {
  const std::string published = R"(, "head_dim": 16, "num_local_experts": 4, "num_experts_per_tok": 2,
      "attn_type_list": [1, 1, 1], "mtp_transformer_layers": 1, "num_mtp_modules": 3, "qk_norm_type": "per_layer",
      "scoring_func": "sigmoid", "shared_intermediate_size": 0, "use_mtp": true, "use_qk_norm": true,
      "use_routing_bias": true)";
  const config::Model m = read("minimax_m2", published + R"(, "rotary_dim": 8)");
  EXPECT_TRUE(m.qk_norm && m.qk_norm_scope == config::QkNormScope::kAllHeads && m.route_norm && m.expert_bias);
  EXPECT_EQ(m.partial_rotary_factor, 0.5);
  EXPECT_EQ(m.rope_theta, 5e6);
  EXPECT_EQ(m.moe_hidden_dim, 0);
  EXPECT_EQ(m.num_shared_experts, 0);
  EXPECT_EQ(read("minimax_m2", published).partial_rotary_factor, 1);  // the class's
  const std::string half = R"(, "rope_parameters": {"rope_type": "default", "partial_rotary_factor": 0.5})";
  EXPECT_EQ(read("minimax_m2", published + half).partial_rotary_factor, 0.5);
  EXPECT_EQ(read("minimax_m2", published + half + R"(, "rotary_dim": 8)").partial_rotary_factor, 0.5);
  EXPECT_THAT(error("minimax_m2", published + half + R"(, "rotary_dim": 16)"),
              HasSubstr("rotary_dim = 16, and partial_rotary_factor = 0.5"));
  EXPECT_THAT(error("minimax_m2", published + R"(, "rotary_dim": 32)"), HasSubstr("partial_rotary_factor"));
  EXPECT_THAT(error("glm4_moe", R"(, "rotary_dim": 4)"), HasSubstr("field \"rotary_dim\" is not one of glm4_moe"));
  EXPECT_THAT(error("glm4_moe", R"(, "num_mtp_modules": 1)"), HasSubstr("field \"num_mtp_modules\" is not one of"));
  EXPECT_THAT(error("minimax_m2", R"(, "num_nextn_predict_layers": 1)"), HasSubstr("num_nextn_predict_layers"));
  for (const char* field :
       {R"("attn_type_list": [1, 0, 1])", R"("qk_norm_type": "per_head")", R"("scoring_func": "softmax")",
        R"("shared_intermediate_size": 8)", R"("use_qk_norm": false)", R"("use_routing_bias": false)",
        R"("n_shared_experts": 1)", R"("norm_topk_prob": false)", R"("first_k_dense_replace": 1)"})
    EXPECT_THAT(error("minimax_m2", fmt::format(", {}", field)),
                HasSubstr(std::string(field).substr(1, std::string(field).find('"', 1) - 1)))
        << field;
}

TEST(ExpertFields, OfErnieHaveNamesOfTheirOwn) {
  const config::Model plain = read("ernie4_5_moe", "");
  EXPECT_EQ(plain.num_experts, 64);
  EXPECT_EQ(plain.moe_top_k, 6);
  EXPECT_EQ(plain.moe_hidden_dim, 1536);
  EXPECT_EQ(plain.num_shared_experts, 2);
  EXPECT_EQ(plain.n_dense_layers, 1);
  EXPECT_EQ(plain.rope_pairs, config::RopePairs::kInterleaved);
  EXPECT_TRUE(plain.expert_bias && plain.route_norm && plain.enable_weight_tying);
  EXPECT_EQ(plain.score_func, config::ScoreFunc::kSoftmax);
  // The fields of its published files, and what transformers' class writes.
  const config::Model given = read("ernie4_5_moe", R"(, "moe_num_experts": 8, "moe_k": 3, "moe_layer_start_index": 2,
      "moe_layer_end_index": 2, "moe_layer_interval": 1, "moe_num_shared_experts": 0, "moe_norm_min": 1e-12,
      "moe_capacity": [64, 64, 64], "moe_gate": "topk", "moe_use_aux_free": true, "use_rmsnorm": true,
      "num_nextn_predict_layers": 1, "use_bias": false, "is_quantized": false, "tie_word_embeddings": false)");
  EXPECT_EQ(given.num_experts, 8);
  EXPECT_EQ(given.moe_top_k, 3);
  EXPECT_EQ(given.n_dense_layers, 2);
  EXPECT_EQ(given.num_shared_experts, 0);
  EXPECT_EQ(read("ernie4_5_moe", R"(, "num_experts": 8, "num_experts_per_tok": 3)").moe_top_k, 3);
  EXPECT_EQ(read("ernie4_5_moe", R"(, "moe_layer_end_index": -1)").n_dense_layers, 1);
  EXPECT_THAT(error("ernie4_5_moe", R"(, "moe_k": 2, "num_experts_per_tok": 3)"),
              HasSubstr("num_experts_per_tok and moe_k differ"));
  for (const char* field : {R"("moe_layer_end_index": 1)", R"("moe_layer_end_index": -2)", R"("moe_layer_interval": 2)",
                            R"("moe_norm_min": 0.5)", R"("use_bias": true)", R"("moe_use_aux_free": false)",
                            R"("moe_gate": "top2")", R"("norm_topk_prob": true)", R"("n_routed_experts": 8)"})
    EXPECT_THAT(error("ernie4_5_moe", fmt::format(", {}", field)),
                HasSubstr(std::string(field).substr(1, std::string(field).find('"', 1) - 1)))
        << field;
  for (const char* field : {"moe_num_experts", "moe_k", "moe_layer_end_index", "moe_layer_start_index"})
    EXPECT_THAT(error("qwen3_moe", fmt::format(R"(, "{}": 2)", field)),
                HasSubstr(fmt::format("field \"{}\" is not one of qwen3_moe", field)));
}

TEST(ExpertFields, WindowsOfDotsAreInTheLayersFromOneOn) {
  const auto dots = [](const std::string& fields) {
    return std::string(kDots) + R"(, "max_position_embeddings": 32)" + fields;
  };
  const auto windows = [&](const std::string& fields) {
    const config::Model m = read("dots1", dots(fields));
    std::vector<int64_t> all;
    for (int64_t layer = 0; layer < m.n_layers; ++layer) all.push_back(config::window_of_layer(m, layer));
    return all;
  };
  EXPECT_THAT(windows(R"(, "sliding_window": 7, "max_window_layers": 1)"), testing::ElementsAre(0, 7, 7));
  EXPECT_THAT(windows(R"(, "sliding_window": 7, "max_window_layers": 0)"), testing::ElementsAre(7, 7, 7));
  EXPECT_THAT(windows(R"(, "sliding_window": null, "max_window_layers": 1)"), testing::ElementsAre(0, 0, 0));
  EXPECT_THAT(windows(R"(, "max_window_layers": 2)"), testing::ElementsAre(0, 0, 4096));
  // The class does not read the switch of Qwen's files, and a list says more than a number.
  EXPECT_THAT(windows(R"(, "sliding_window": 7, "max_window_layers": 1, "use_sliding_window": false)"),
              testing::ElementsAre(0, 7, 7));
  const char* types = R"(, "layer_types": ["sliding_attention", "full_attention", "full_attention"])";
  EXPECT_THAT(windows(fmt::format(R"(, "sliding_window": 7, "max_window_layers": 1{})", types)),
              testing::ElementsAre(7, 0, 0));
  EXPECT_THAT(error("dots1", dots(fmt::format(R"(, "sliding_window": null{})", types))),
              HasSubstr("sliding_window is null"));
}

TEST(Names, OfExpertsHaveTwoNumbers) {
  const std::string ours = "layers.12.moe.experts.7.w2.weight";
  EXPECT_EQ(to_hugging_face(ours, "qwen3_moe"), "model.layers.12.mlp.experts.7.down_proj.weight");
  EXPECT_EQ(from_hugging_face("model.layers.12.mlp.experts.7.down_proj.weight", "qwen3_moe"), ours);
  EXPECT_EQ(to_hugging_face(ours, "mixtral"), "model.layers.12.block_sparse_moe.experts.7.w2.weight");
  EXPECT_EQ(to_torchtitan(ours), std::nullopt);
  EXPECT_TRUE(is_row_in_hugging_face("layers.12.moe.expert_bias", "ernie4_5_moe"));
  EXPECT_FALSE(is_row_in_hugging_face("layers.12.moe.expert_bias", "glm4_moe"));
  EXPECT_EQ(cut_of(ours), (RankCut{1, HeadKind::kNone}));
  for (const char* other : {"layers.*.a.*", "layers.1.a.01", "layers.1.a.", "layers.1.a.2.b", "layers..a.2"})
    EXPECT_EQ(matched("layers.*.a.*", other), std::nullopt) << other;
  EXPECT_EQ(matched("layers.*.a.*", "layers.31.a.0"), (std::vector<std::string_view>{"31", "0"}));
}

}  // namespace
}  // namespace hearth::convert
