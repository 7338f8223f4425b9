// SPDX-License-Identifier: Apache-2.0
// src/models/*/family.toml against the classes of transformers.
#include "config/families.h"

#include <nlohmann/json.hpp>
#include <tuple>

#include "convert/hugging_face/config.h"
#include "convert/hugging_face/neobert.h"
#include "foreign.h"
#include "support/errors.h"

namespace hearth::convert {
namespace {

using testing::HasSubstr;

TEST(Families, HaveTheDefaultsOfTheirClasses) {
  HEARTH_NEEDS_ORACLE();
  std::string words = "tests/convert/class_defaults.py";
  std::vector<const config::Family*> families;
  for (const config::Family& family : config::families()) {
    const config::HuggingFaceClass& c = family.hugging_face;
    if (c.model_type == kNeoBertType) continue;  // its class is code of its repository
    families.push_back(&family);
    words += fmt::format(" {},{}", c.architecture, c.window == config::SlidingWindowUse::kSwitched ? 1 : 0);
    for (const config::FieldKey& key : c.keys) words += "," + key.field;
  }
  const nlohmann::json all = nlohmann::json::parse(last_line(test::run_python(words), words));
  ASSERT_EQ(all.size(), families.size());
  for (size_t i = 0; i < all.size(); ++i) {
    const config::Family& family = *families[i];
    const config::HuggingFaceClass& c = family.hugging_face;
    const nlohmann::json& found = all[i];
    nlohmann::json fields = {c.partial_rotary > 0 ? c.partial_rotary : 1.0};
    for (const config::FieldKey& key : c.keys)
      std::visit([&](const auto& missing) { fields.push_back(missing); }, key.missing);
    const int64_t heads = c.num_key_value_heads > 0 ? c.num_key_value_heads : 6;
    const bool by_layer = c.window == config::SlidingWindowUse::kByLayer;
    const nlohmann::json ours = {c.model_type,
                                 c.max_position_embeddings,
                                 heads,
                                 c.head_dim > 0 ? c.head_dim : 16,
                                 c.sliding_window,
                                 c.rms_norm_eps,
                                 {c.experts.count, c.experts.top_k, c.experts.width},
                                 fields,
                                 c.rope_theta,
                                 c.tie_word_embeddings,
                                 c.no_rope_layer_interval,
                                 by_layer ? c.full_attention_interval : 0,
                                 c.vocab_size > 0 ? nlohmann::json(c.vocab_size) : found.back()};
    EXPECT_EQ(ours, found) << family.name;
  }
}

// Both classes have norms of heads: dots.llm1 always, and GLM-4.5 by a field.
TEST(Families, AModelStaysOneOfItsNameIfTheClassComputesIt) {
  config::Model model;
  config::apply(config::find_family("glm4_moe"), model);
  model.num_experts = 8;
  model.qk_norm = true;
  EXPECT_EQ(config::nearest_family(model).name, "glm4_moe");
  model.name = "llama3";
  EXPECT_EQ(config::nearest_family(model).name, "dots1");
}

TEST(HuggingFaceConfig, AStyleOfRotationWithoutABaseHasTheFilesOrTheClassesOwn) {
  const auto theta = [](const std::string& fields) {
    std::vector<std::string> notes;
    return parse_hugging_face_config(R"({"model_type": "olmo2", "hidden_size": 32, "num_hidden_layers": 1,
                                         "num_attention_heads": 2, "intermediate_size": 48, "vocab_size": 64)" +
                                         fields + "}",
                                     "config.json", notes)
        .model.rope_theta;
  };
  EXPECT_EQ(theta(""), 10000);
  EXPECT_EQ(theta(R"(, "rope_theta": 5e5, "rope_scaling": {"rope_type": "default"})"), 5e5);
  EXPECT_EQ(theta(R"(, "rope_parameters": {"rope_type": "default", "rope_theta": 5e5})"), 5e5);
  // transformers computes by rope_scaling alone, whose base is the class's.
  const std::string both =
      R"(, "rope_parameters": {"rope_type": "default", "rope_theta": 5e5}, "rope_scaling": {"rope_type": "default"})";
  EXPECT_THAT(test::error_of([&] { theta(both); }).message(), HasSubstr("rope_theta is 500000 in one place"));
  for (const char* field : {R"(, "max_position_embeddings": 0)", R"(, "rms_norm_eps": 2.0)", R"(, "rope_theta": 0.5)"})
    EXPECT_THAT(test::error_of([&] { theta(field); }).message(), HasSubstr("would be")) << field;
}

// Google's files leave out what their class knows.
TEST(HuggingFaceConfig, AGemmaWithinAModelOfPicturesHasTheClassesSizes) {
  std::vector<std::string> notes;
  const config::Model m = parse_hugging_face_config(R"({"model_type": "gemma3", "text_config": {
      "model_type": "gemma3_text", "hidden_size": 2560, "intermediate_size": 10240, "num_hidden_layers": 34,
      "rope_scaling": {"factor": 8.0, "rope_type": "linear"}, "sliding_window": 1024}})",
                                                    "config.json", notes)
                              .model;
  const config::Model expected = config::model_of(*config::find_flavor("gemma3", "4B"));
  EXPECT_EQ(m.n_heads, expected.n_heads);
  EXPECT_EQ(m.n_kv_heads, expected.n_kv_heads);
  EXPECT_EQ(m.head_dim, expected.head_dim);
  EXPECT_EQ(m.vocab_size, 262208);
  EXPECT_EQ(m.full_attention_interval, expected.full_attention_interval);
  EXPECT_EQ(m.rope_local_theta, expected.rope_local_theta);
  EXPECT_EQ(m.rope_scaling_factor, expected.rope_scaling_factor);
  EXPECT_EQ(m.embedding_multiplier, expected.embedding_multiplier);
  EXPECT_EQ(m.attention_multiplier, expected.attention_multiplier);
}

// Files of Gemma of 2024 name the exact function. The class computes the approximation.
TEST(HuggingFaceConfig, AnOlderNameOfAValueIsTheClassesValue) {
  const auto read = [](const std::string& type, const std::string& fields) {
    std::vector<std::string> notes;
    return parse_hugging_face_config(R"({"hidden_size": 64, "num_hidden_layers": 1, "num_attention_heads": 4,
                                         "num_key_value_heads": 4, "intermediate_size": 48, "vocab_size": 64, "model_type": ")" +
                                         type + R"(", )" + fields + "}",
                                     "config.json", notes)
        .model;
  };
  for (const char* fields : {R"("hidden_act": "gelu")", R"("hidden_act": "gelu", "hidden_activation": null)",
                             R"("hidden_act": "gelu_pytorch_tanh", "hidden_activation": "gelu_pytorch_tanh")"}) {
    const config::Model m = read("gemma", fields);
    EXPECT_EQ(m.activation, config::Activation::kGeluTanh) << fields;
    EXPECT_EQ(m.embedding_multiplier, 8) << fields;
  }
  for (const auto& [type, fields] : {std::pair("gemma", R"("hidden_act": "silu")"),
                                     {"gemma", R"("hidden_activation": "gelu")"},
                                     {"gemma3_text", R"("hidden_activation": "gelu")"},
                                     {"llama", R"("hidden_act": "gelu")"}})
    EXPECT_THAT(test::error_of([&] { read(type, fields); }).message(), HasSubstr("hidden_act"))
        << type << " " << fields;
}

TEST(HuggingFaceConfig, AScalingThatHearthWouldNotTrainIsRefused) {
  const auto message = [](const std::string& rope) {
    std::vector<std::string> notes;
    return test::error_of([&] {
             parse_hugging_face_config(R"({"model_type": "phi3", "hidden_size": 64, "num_hidden_layers": 1,
                 "num_attention_heads": 4, "intermediate_size": 48, "vocab_size": 64, "pad_token_id": 0,
                 "max_position_embeddings": 64, )" +
                                           rope + "}",
                                       "config.json", notes);
           })
        .message();
  };
  EXPECT_THAT(message(R"("original_max_position_embeddings": 16, "rope_scaling": {"type": "longrope",
                          "short_factor": [1, 1], "long_factor": [1, 2]})"),
              HasSubstr("model.rope_short_factor"));
  EXPECT_THAT(message(R"("original_max_position_embeddings": 1, "rope_scaling": {"type": "longrope",
                          "short_factor": [1, 1, 1, 1, 1, 1, 1, 1], "long_factor": [1, 2, 2, 2, 2, 2, 2, 2]})"),
              HasSubstr("model.rope_original_seq_len"));
}

TEST(HuggingFaceConfig, LayersWithoutRotationAreEveryNth) {
  const auto read = [](const std::string& fields, const std::string& type = "smollm3") {
    std::vector<std::string> notes;
    return parse_hugging_face_config(R"({"model_type": ")" + type + R"(", "hidden_size": 32, "num_hidden_layers": 6,
                                         "num_attention_heads": 4, "intermediate_size": 48, "vocab_size": 64)" +
                                         fields + "}",
                                     "config.json", notes)
        .model.no_rope_layer_interval;
  };
  EXPECT_EQ(read(""), 4);  // the class's
  EXPECT_EQ(read(R"(, "no_rope_layer_interval": 3)"), 3);
  EXPECT_EQ(read(R"(, "no_rope_layer_interval": 3, "no_rope_layers": [1, 0, 1, 0, 1, 0])"), 2);
  EXPECT_EQ(read(R"(, "no_rope_layers": [1, 1, 1, 1, 1, 1])"), 0);
  EXPECT_EQ(read(R"(, "no_rope_layers": [0, 0, 0, 0, 0, 0, 1])"), 1);  // transformers reads as many as it needs
  for (const char* layers : {"[1, 0, 1, 1, 1, 0]", "[0, 1, 1, 1, 1, 1]", "[1, 0]", "3"})
    EXPECT_THAT(test::error_of([&] { read(fmt::format(R"(, "no_rope_layers": {})", layers)); }).message(),
                HasSubstr("no_rope_layers"))
        << layers;
  EXPECT_THAT(test::error_of([&] { read(R"(, "no_rope_layers": [1, 1, 1, 0, 1, 1])", "llama"); }).message(),
              HasSubstr("no_rope_layers"));
}

TEST(HuggingFaceConfig, MultipliersAreGranitesAndArceesFeedForwardIsItsOwn) {
  const auto read = [](const std::string& type, const std::string& fields) {
    std::vector<std::string> notes;
    return parse_hugging_face_config(R"({"model_type": ")" + type + R"(", "hidden_size": 64, "num_hidden_layers": 1,
                                         "num_attention_heads": 4, "intermediate_size": 48, "vocab_size": 64)" +
                                         fields + "}",
                                     "config.json", notes);
  };
  const config::Model plain = read("granite", "").model;  // the class's defaults, of which one is no default of Llama's
  EXPECT_EQ(std::tuple(plain.embedding_multiplier, plain.residual_multiplier, plain.attention_multiplier,
                       plain.logits_divisor),
            std::tuple(1, 1, 1, 1));
  const config::Model given = read("granite", R"(, "embedding_multiplier": 12, "residual_multiplier": 0.22,
                                                   "attention_multiplier": 0.015625, "logits_scaling": 8.0)")
                                  .model;
  EXPECT_EQ(std::tuple(given.embedding_multiplier, given.residual_multiplier, given.attention_multiplier,
                       given.logits_divisor),
            std::tuple(12, 0.22, 0.015625, 8));
  for (const char* field : {"embedding_multiplier", "residual_multiplier", "attention_multiplier", "logits_scaling"}) {
    EXPECT_THAT(test::error_of([&] { read("llama", fmt::format(R"(, "{}": 2.0)", field)); }).message(),
                HasSubstr(fmt::format("field \"{}\" is not one of llama", field)));
    EXPECT_THAT(test::error_of([&] { read("granite", fmt::format(R"(, "{}": 0.0)", field)); }).message(),
                HasSubstr("is not a positive number"));
  }
  // A model without a scale of its own is written with the one that it computes with.
  Description model = read("granite", "");
  model.model.attention_multiplier = 0;
  EXPECT_THAT(format_hugging_face_config(model, DType::kFloat32), HasSubstr("\"attention_multiplier\": 0.25,"));

  const config::Model arcee = read("arcee", R"(, "hidden_act": "relu2")").model;
  EXPECT_EQ(arcee.activation, config::Activation::kRelu2);
  EXPECT_FALSE(arcee.gated_ffn);
  EXPECT_THAT(test::error_of([&] { read("arcee", R"(, "hidden_act": "silu")"); }).message(), HasSubstr("hidden_act"));
  EXPECT_THAT(test::error_of([&] { read("llama", R"(, "hidden_act": "relu2")"); }).message(), HasSubstr("hidden_act"));
}

}  // namespace
}  // namespace hearth::convert
