// SPDX-License-Identifier: Apache-2.0
// The fields of positions in config.json: of transformers 4 and 5, and of classes with layers of two sorts.
#include "convert/hugging_face/rope.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "support/errors.h"

namespace hearth::convert {
namespace {

using config::RopeType;
using nlohmann::json;
using testing::ElementsAre;
using testing::HasSubstr;

constexpr int64_t kPositions = 65536;

config::HuggingFaceClass plain_class() {
  config::HuggingFaceClass type;
  type.model_type = "llama";
  type.architecture = "LlamaForCausalLM";
  return type;
}
config::HuggingFaceClass gemma3() {
  config::HuggingFaceClass type = plain_class();
  type.layered_rope = true;
  type.rope_theta = 1e6;
  type.rope_local_theta = 1e4;
  return type;
}
config::HuggingFaceClass olmo3() {
  config::HuggingFaceClass type = gemma3();
  type.rope_theta = type.rope_local_theta = 5e5;
  return type;
}

config::Model read(const std::string& fields, const config::HuggingFaceClass& type = plain_class()) {
  config::Model model;
  read_rope(json::parse("{" + fields + "}"), type, kPositions, "config.json", model);
  return model;
}
std::string refusal(const std::string& fields, const config::HuggingFaceClass& type = plain_class()) {
  return test::error_of([&] { read(fields, type); }).message();
}
json written(const config::Model& model, const config::HuggingFaceClass& type) {
  nlohmann::ordered_json fields = json::object();
  write_rope(fields, type, model);
  return json::parse(fields.dump());
}
// Both styles, and each alone as the version of transformers that writes it has it.
void comes_back(const config::Model& model, const config::HuggingFaceClass& type) {
  const json both = written(model, type);
  for (const char* left_out : {"", "rope_scaling", "rope_parameters"}) {
    json fields = both;
    fields.erase(left_out);
    config::Model found;
    read_rope(fields, type, fields.value("max_position_embeddings", kPositions), "config.json", found);
    EXPECT_EQ(written(found, type), both) << "without " << left_out;
  }
}

constexpr const char* kYarn =
    R"({"rope_type": "yarn", "factor": 8.0, "original_max_position_embeddings": 8192,
        "attention_factor": 1.2079441541679836})";

TEST(RopeFields, OfBothStylesAreReadAndWritten) {
  const config::Model linear = read(R"("rope_theta": 1e6, "rope_scaling": {"type": "linear", "factor": 8})");
  EXPECT_EQ(linear.rope_type, RopeType::kLinear);
  EXPECT_EQ(linear.rope_scaling_factor, 8);
  EXPECT_EQ(linear.rope_theta, 1e6);
  comes_back(linear, plain_class());

  config::Model yarn = read(fmt::format(R"("rope_parameters": {})", kYarn));
  EXPECT_EQ(yarn.rope_type, RopeType::kYarn);
  EXPECT_EQ(yarn.rope_original_seq_len, 8192);
  EXPECT_EQ(yarn.rope_attention_factor, 0);  // 0.1 ln 8 + 1
  EXPECT_EQ(written(yarn, plain_class())["rope_parameters"]["attention_factor"], 1.2079441541679836);
  comes_back(yarn, plain_class());
  // DeepSeek's fields: (0.1 * 2 ln 40 + 1) / (0.1 ln 40 + 1).
  yarn = read(R"("rope_scaling": {"rope_type": "yarn", "factor": 40, "original_max_position_embeddings": 4096,
                                  "mscale": 2, "mscale_all_dim": 1, "beta_fast": 16, "beta_slow": 2, "truncate": false})");
  EXPECT_NEAR(yarn.rope_attention_factor, (0.2 * std::log(40) + 1) / (0.1 * std::log(40) + 1), 1e-15);
  EXPECT_EQ(yarn.rope_beta_fast, 16);
  EXPECT_FALSE(yarn.rope_truncate);
  comes_back(yarn, plain_class());
  // Without an original length and a factor: the longest sequence, whose ratio is no scaling.
  EXPECT_EQ(read(R"("rope_scaling": {"rope_type": "yarn"})").rope_scaling_factor, 1);
  EXPECT_EQ(
      read(R"("rope_scaling": {"rope_type": "yarn", "original_max_position_embeddings": 4096})").rope_scaling_factor,
      16);
  comes_back(read(R"("rope_parameters": {"rope_type": "default", "rope_theta": 77.0})"), plain_class());
}

TEST(RopeFields, OfLongRopeAreThoseOfPhi3) {
  const config::HuggingFaceClass& phi3 = config::find_family("phi3").hugging_face;
  const std::string fields =
      R"("partial_rotary_factor": 0.75, "original_max_position_embeddings": 4096, "rope_scaling":
         {"type": "su", "short_factor": [1, 1.5], "long_factor": [1, 20.5]})";
  const config::Model m = read(fields, phi3);
  EXPECT_EQ(m.rope_type, RopeType::kLongRope);
  EXPECT_EQ(m.rope_scaling_factor, 16);  // 65536 / 4096
  EXPECT_EQ(m.rope_attention_factor, 0);
  EXPECT_EQ(m.partial_rotary_factor, 0.75);
  EXPECT_THAT(m.rope_short_factor, ElementsAre(1, 1.5));
  EXPECT_THAT(m.rope_long_factor, ElementsAre(1, 20.5));
  comes_back(m, phi3);
  const json out = written(m, phi3);
  EXPECT_EQ(out["max_position_embeddings"], kPositions);
  EXPECT_EQ(out["rope_scaling"].size(), 3U);  // transformers 4 allows no more
  EXPECT_THAT(refusal(R"("rope_scaling": {"type": "linear", "factor": 2})", phi3),
              HasSubstr("rope_scaling: rope_type \"linear\""));
  // Its class has an original length of its own.
  EXPECT_EQ(read(R"("rope_scaling": {"type": "longrope", "short_factor": [1], "long_factor": [1]})", phi3)
                .rope_original_seq_len,
            4096);
  EXPECT_THAT(refusal(R"("rope_scaling": {"type": "longrope", "original_max_position_embeddings": 8192,
                          "short_factor": [1], "long_factor": [1]})",
                      phi3),
              HasSubstr("original_max_position_embeddings is 4096 in one place and 8192 in another"));
  EXPECT_THAT(
      refusal(R"("rope_scaling": {"type": "longrope", "factor": 2, "short_factor": [0], "long_factor": [1]})", phi3),
      HasSubstr("rope_scaling.short_factor = 0 is not a positive number"));
  EXPECT_THAT(refusal(fields + R"(, "rope_parameters": {"rope_type": "default", "partial_rotary_factor": 0.5})", phi3),
              HasSubstr("partial_rotary_factor is 0.75 in one place and 0.5 in another"));
  config::Model other = m;
  other.rope_attention_factor = 1.1;
  EXPECT_THAT(test::error_of([&] { written(other, phi3); }).message(),
              HasSubstr("model.rope_attention_factor = 1.1 has no home"));
}

TEST(RopeFields, OfQueriesAreThoseOfMinistral3) {
  const config::HuggingFaceClass& type = config::find_family("ministral3").hugging_face;
  const std::string style =
      R"("rope_parameters": {"rope_type": "yarn", "factor": 16, "original_max_position_embeddings": 16384,
         "max_position_embeddings": 262144, "mscale": 1, "mscale_all_dim": 1, "rope_theta": 1e6)";
  const config::Model m = read(style + R"(, "llama_4_scaling_beta": 0.1})", type);
  EXPECT_EQ(m.query_position_scale, 0.1);
  EXPECT_EQ(m.rope_attention_factor, 1);
  comes_back(m, type);
  EXPECT_THAT(refusal(style + "}", type), HasSubstr("rope_parameters has no llama_4_scaling_beta"));
  EXPECT_THAT(refusal("", type), HasSubstr("has no rope_parameters"));
  EXPECT_THAT(refusal(style + R"(, "llama_4_scaling_beta": 0.1})"), HasSubstr("is not known"));
  EXPECT_THAT(refusal(R"("rope_parameters": {"rope_type": "default", "llama_4_scaling_beta": 0.1})", type),
              HasSubstr("llama_4_scaling_beta = 0.1"));
}

TEST(RopeFields, OfLayersWithAWindowAreThoseOfGemma3AndOlmo3) {
  // The generation before: a base of their own, and a scaling of the others.
  const config::Model old =
      read(R"("rope_theta": 1e6, "rope_local_base_freq": 12000, "rope_scaling": {"rope_type": "linear", "factor": 8})",
           gemma3());
  EXPECT_EQ(old.rope_local_theta, 12000);
  EXPECT_EQ(old.rope_scaling_factor, 8);
  comes_back(old, gemma3());
  const std::string layered =
      R"("rope_parameters": {"full_attention": {"rope_type": "linear", "factor": 8, "rope_theta": 1e6},
                             "sliding_attention": {"rope_type": "default", "rope_theta": 12000}})";
  EXPECT_EQ(written(read(layered, gemma3()), gemma3()), written(old, gemma3()));
  EXPECT_EQ(read("", gemma3()).rope_local_theta, 1e4);
  EXPECT_EQ(read("", gemma3()).rope_theta, 1e6);
  EXPECT_THAT(refusal(layered + R"(, "rope_local_base_freq": 9000)", gemma3()),
              HasSubstr("rope_local_base_freq is 9000 and rope_parameters.sliding_attention has 12000"));
  EXPECT_THAT(refusal(layered), HasSubstr("rope_parameters.full_attention is not known"));
  EXPECT_THAT(refusal(R"("rope_local_base_freq": 9000)"), HasSubstr("\"rope_local_base_freq\" is not one of llama"));
  EXPECT_THAT(refusal(R"("rope_parameters": {"rope_type": "default"})", gemma3()),
              HasSubstr("rope_parameters has neither full_attention nor sliding_attention"));
  EXPECT_THAT(refusal(R"("rope_parameters": {"sliding_attention": {"rope_type": "linear", "factor": 8}})", gemma3()),
              HasSubstr("rope_parameters.sliding_attention is scaled"));

  const config::Model yarn = read(fmt::format(R"("rope_theta": 5e5, "rope_scaling": {})", kYarn), olmo3());
  EXPECT_EQ(yarn.rope_local_theta, 5e5);
  EXPECT_EQ(yarn.rope_type, RopeType::kYarn);
  comes_back(yarn, olmo3());
  EXPECT_FALSE(written(yarn, olmo3()).contains("rope_local_base_freq"));
  // transformers 4 takes the file's base for all layers, and 5 the class's for those with a window.
  EXPECT_THAT(refusal(R"("rope_theta": 1e4)", olmo3()), HasSubstr("no base of layers with a window"));
}

TEST(RopeFields, ThatContradictEachOtherAreRefused) {
  EXPECT_THAT(
      refusal(fmt::format(R"("rope_parameters": {}, "rope_scaling": {{"type": "linear", "factor": 8}})", kYarn)),
      HasSubstr("rope_parameters and rope_scaling differ"));
  EXPECT_THAT(refusal(R"("partial_rotary_factor": 0.5)"), HasSubstr("partial_rotary_factor = 0.5"));
  EXPECT_THAT(refusal(R"("rope_scaling": {"rope_type": "yarn", "factor": 4, "beta_fast": 1})"),
              HasSubstr("beta_fast is not above"));
  EXPECT_THAT(refusal(R"("rope_scaling": {"rope_type": "yarn", "factor": 1, "attention_factor": 2})"),
              HasSubstr("has no scaling, and multiplies by 2"));
  EXPECT_THAT(refusal(R"("original_max_position_embeddings": 4096, "rope_scaling": {"rope_type": "yarn", "factor": 4,
                         "original_max_position_embeddings": 8192})"),
              HasSubstr("original_max_position_embeddings is 4096 in one place and 8192 in another"));
  EXPECT_THAT(refusal(R"("rope_scaling": {"rope_type": "linear", "factor": 2, "beta_fast": 3})"),
              HasSubstr("rope_scaling.beta_fast is not known"));
}

}  // namespace
}  // namespace hearth::convert
