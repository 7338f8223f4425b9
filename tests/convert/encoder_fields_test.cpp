// SPDX-License-Identifier: Apache-2.0
// ModernBERT's config.json (convert/hugging_face/modernbert.h), as transformers 4 and 5 write it; NeoBERT's
// (convert/hugging_face/neobert.h); and EXAONE 4's windows.
#include <nlohmann/json.hpp>

#include "config/derived.h"
#include "config/families.h"
#include "convert/hugging_face/config.h"
#include "foreign.h"
#include "support/errors.h"

namespace hearth::convert {
namespace {

using testing::HasSubstr;
using JsonFields = nlohmann::json;

// The fields of the published ModernBERT-base, which transformers 4 wrote.
JsonFields published() {
  return JsonFields::parse(R"({"architectures": ["ModernBertForMaskedLM"], "attention_bias": false,
      "attention_dropout": 0.0, "bos_token_id": 50281, "classifier_activation": "gelu", "classifier_bias": false,
      "classifier_dropout": 0.0, "classifier_pooling": "mean", "cls_token_id": 50281, "decoder_bias": true,
      "deterministic_flash_attn": false, "embedding_dropout": 0.0, "eos_token_id": 50282,
      "global_attn_every_n_layers": 3, "global_rope_theta": 160000.0, "gradient_checkpointing": false,
      "hidden_activation": "gelu", "hidden_size": 768, "initializer_cutoff_factor": 2.0, "initializer_range": 0.02,
      "intermediate_size": 1152, "layer_norm_eps": 1e-05, "local_attention": 128, "local_rope_theta": 10000.0,
      "max_position_embeddings": 8192, "mlp_bias": false, "mlp_dropout": 0.0, "model_type": "modernbert",
      "norm_bias": false, "norm_eps": 1e-05, "num_attention_heads": 12, "num_hidden_layers": 22,
      "pad_token_id": 50283, "position_embedding_type": "absolute", "reference_compile": null, "sep_token_id": 50282,
      "sparse_pred_ignore_index": -100, "sparse_prediction": false, "torch_dtype": "float32",
      "transformers_version": "4.47.0.dev0", "vocab_size": 50368})");
}

Description read(const JsonFields& fields) {
  std::vector<std::string> notes;
  return parse_hugging_face_config(fields.dump(), "config.json", notes);
}

std::string refusal(const char* field, const JsonFields& value) {
  JsonFields fields = published();
  fields[field] = value;
  return test::error_of([&] { read(fields); }).message();
}

TEST(ModernBertConfig, OfThePublishedModelIsItsFlavor) {
  const Description found = read(published());
  EXPECT_EQ(found.objective, config::ObjectiveKind::kMaskedLm);
  EXPECT_EQ(found.max_positions, 8192);
  config::RunConfig ours, theirs;
  ours.model = config::model_of(*config::find_flavor("modernbert", "base"));
  theirs.model = found.model;
  ours.model.vocab_size = 50368, ours.model.n_kv_heads = 12, ours.model.flavor = theirs.model.flavor;
  ours.model.rope_pairs = config::RopePairs::kHalves;
  for (const config::Field& field : config::fields()) {
    if (field.section != "model") continue;
    EXPECT_EQ(field.value(theirs), field.value(ours)) << field.name();
  }
  for (int64_t layer = 0; layer < 22; ++layer)
    EXPECT_EQ(config::window_of_layer(found.model, layer), layer % 3 == 0 ? 0 : 128) << layer;
}

TEST(ModernBertConfig, IsWrittenForBothVersionsOfTransformers) {
  const JsonFields written = JsonFields::parse(format_hugging_face_config(read(published()), DType::kFloat32));
  for (const char* field :
       {"norm_eps", "local_attention", "global_attn_every_n_layers", "global_rope_theta", "local_rope_theta",
        "hidden_activation", "decoder_bias", "norm_bias", "num_attention_heads"})
    EXPECT_EQ(written.at(field), published().at(field)) << field;
  EXPECT_EQ(written.at("rope_parameters").at("full_attention").at("rope_theta"), 160000.0);
  EXPECT_EQ(written.at("rope_parameters").at("sliding_attention").at("rope_theta"), 10000.0);
  EXPECT_EQ(written.at("cls_token_id"), 50281);
  EXPECT_EQ(written.at("sep_token_id"), 50282);
  EXPECT_EQ(written.at("layer_types").size(), 22U);
  EXPECT_EQ(written.at("layer_types")[3], "full_attention");
  for (const char* field : {"sliding_window", "is_causal", "rms_norm_eps", "rope_theta", "num_key_value_heads"})
    EXPECT_FALSE(written.contains(field)) << field;
  EXPECT_EQ(read(written).model.layer_types, read(published()).model.layer_types);
}

TEST(ModernBertConfig, ThatWouldComputeSomethingElseIsRefusedByName) {
  EXPECT_THAT(refusal("norm_bias", true), HasSubstr("norm_bias = true"));
  EXPECT_THAT(refusal("classifier_bias", true), HasSubstr("classifier_bias = true"));
  EXPECT_THAT(refusal("decoder_bias", false), HasSubstr("decoder_bias = false"));
  EXPECT_THAT(refusal("hidden_activation", "silu"), HasSubstr("hidden_activation = \"silu\""));
  EXPECT_THAT(refusal("local_rope_theta", nullptr), HasSubstr("local_rope_theta is null"));
  EXPECT_THAT(refusal("rope_scaling", {{"rope_type", "linear"}, {"factor", 2.0}}), HasSubstr("rope_scaling"));
  EXPECT_THAT(refusal("is_causal", false), HasSubstr("\"is_causal\" is not one of modernbert"));
  EXPECT_THAT(refusal("global_attn_every_n_layers", 0), HasSubstr("global_attn_every_n_layers = 0"));
  for (const int reach : {0, 1})
    EXPECT_THAT(refusal("local_attention", reach), HasSubstr("local_attention is below 2"));
  EXPECT_THAT(refusal("sliding_window", 3), HasSubstr("\"sliding_window\" is not one of modernbert"));
  EXPECT_THAT(refusal("hidden_act", "silu"), HasSubstr("\"hidden_act\" is not one of modernbert"));
  EXPECT_THAT(refusal("local_attention", "all"), HasSubstr("local_attention = \"all\" is not a size"));
  EXPECT_THAT(refusal("another_field", 1), HasSubstr("\"another_field\" is not known"));
  EXPECT_THAT(refusal("num_hidden_layers", int64_t{1} << 31), HasSubstr("model.n_layers would be 2147483648"));
  EXPECT_THAT(refusal("num_hidden_layers", int64_t{1} << 62), HasSubstr("num_hidden_layers"));
  EXPECT_THAT(refusal("num_hidden_layers", "22"), HasSubstr("num_hidden_layers = \"22\" is not a size"));
}

TEST(ModernBertConfig, NullsAreMissingFields) {
  JsonFields fields = published();
  fields["local_attention"] = nullptr;
  fields["global_attn_every_n_layers"] = nullptr;
  fields["rope_scaling"] = nullptr;
  EXPECT_EQ(read(fields).model.sliding_window, 128);
  EXPECT_EQ(read(fields).model.full_attention_interval, 3);
}

TEST(ModernBertConfig, HasNoHomeForOtherModels) {
  const auto message = [](auto change) {
    Description d = read(published());
    change(d);
    return test::error_of([&] { format_hugging_face_config(d, DType::kFloat32); }).message();
  };
  EXPECT_THAT(message([](Description& d) { d.objective = config::ObjectiveKind::kCausalLm; }),
              HasSubstr("objective.kind = \"causal_lm\" has no home"));
  EXPECT_THAT(message([](Description& d) { d.model.n_kv_heads = 4; }), HasSubstr("model.n_kv_heads = 4 has no home"));
  EXPECT_THAT(message([](Description& d) { d.model.first_full_attention_layer = 1; }),
              HasSubstr("layers without a window at other places"));
  EXPECT_THAT(message([](Description& d) { d.model.decoder_bias = false; }), HasSubstr("model.decoder_bias = false"));
  EXPECT_THAT(message([](Description& d) { d.model.full_attention_interval = 0; }),
              HasSubstr("a window in all layers has no home"));
  EXPECT_THAT(message([](Description& d) { d.model.sliding_window = 1; }),
              HasSubstr("model.sliding_window = 1 has no"));
}

// The fields of the published NeoBERT.
JsonFields published_neobert() {
  return JsonFields::parse(R"({"architectures": ["NeoBERTLMHead"], "auto_map": {"AutoConfig": "model.NeoBERTConfig",
      "AutoModel": "model.NeoBERT", "AutoModelForMaskedLM": "model.NeoBERTLMHead",
      "AutoModelForSequenceClassification": "model.NeoBERTForSequenceClassification"}, "classifier_init_range": 0.02,
      "decoder_init_range": 0.02, "dim_head": 64, "embedding_init_range": 0.02, "hidden_size": 768,
      "intermediate_size": 3072, "kwargs": {"classifier_init_range": 0.02, "trust_remote_code": true,
      "pretrained_model_name_or_path": "google-bert/bert-base-uncased"}, "max_length": 4096, "model_type": "neobert",
      "norm_eps": 1e-05, "num_attention_heads": 12, "num_hidden_layers": 28, "pad_token_id": 0,
      "pretrained_model_name_or_path": "google-bert/bert-base-uncased", "torch_dtype": "float32",
      "transformers_version": "4.48.2", "trust_remote_code": true, "vocab_size": 30522})");
}

TEST(NeoBertConfig, OfThePublishedModelIsItsFlavor) {
  const Description found = read(published_neobert());
  EXPECT_EQ(found.objective, config::ObjectiveKind::kMaskedLm);
  EXPECT_EQ(found.max_positions, 4096);
  config::RunConfig ours, theirs;
  ours.model = config::model_of(*config::find_flavor("neobert", "250M"));
  theirs.model = found.model;
  ours.model.vocab_size = 30522, ours.model.n_kv_heads = 12, ours.model.flavor = theirs.model.flavor;
  EXPECT_EQ(found.model.rope_pairs, config::RopePairs::kInterleaved);
  theirs.model.rope_pairs = ours.model.rope_pairs;
  for (const config::Field& field : config::fields()) {
    if (field.section != "model") continue;
    EXPECT_EQ(field.value(theirs), field.value(ours)) << field.name();
  }
}

TEST(NeoBertConfig, IsWrittenWithTheFieldsOfItsCode) {
  const JsonFields written = JsonFields::parse(format_hugging_face_config(read(published_neobert()), DType::kFloat32));
  for (const char* field : {"architectures", "dim_head", "hidden_size", "intermediate_size", "max_length", "norm_eps",
                            "num_attention_heads", "num_hidden_layers", "vocab_size"})
    EXPECT_EQ(written.at(field), published_neobert().at(field)) << field;
  EXPECT_EQ(written.at("auto_map").at("AutoModelForMaskedLM"), "chandar-lab/NeoBERT--model.NeoBERTLMHead");
  for (const char* field : {"hidden_act", "is_causal", "rms_norm_eps", "rope_theta", "rope_parameters", "head_dim"})
    EXPECT_FALSE(written.contains(field)) << field;
}

TEST(NeoBertConfig, ThatItsCodeReadsInAnotherWayIsRefusedByName) {
  const auto message = [](const char* field, const JsonFields& value) {
    JsonFields fields = published_neobert();
    fields[field] = value;
    return test::error_of([&] { read(fields); }).message();
  };
  EXPECT_THAT(message("hidden_act", "gelu"), HasSubstr("hidden_act = \"gelu\""));
  EXPECT_THAT(message("ngpt", true), HasSubstr("ngpt = true"));
  EXPECT_THAT(message("rope", false), HasSubstr("rope = false"));
  EXPECT_THAT(message("rms_norm", false), HasSubstr("rms_norm = false"));
  EXPECT_THAT(message("dim_head", 32), HasSubstr("dim_head = 32"));
  EXPECT_THAT(message("rope_theta", 10000), HasSubstr("\"rope_theta\" is not one of neobert"));
  EXPECT_THAT(message("num_key_value_heads", 4), HasSubstr("\"num_key_value_heads\" is not one of neobert"));
  EXPECT_THAT(message("intermediate_size", "wide"), HasSubstr("intermediate_size = \"wide\" is not a size"));
  EXPECT_THAT(message("another_field", 1), HasSubstr("\"another_field\" is not known"));
  JsonFields fields = published_neobert();
  fields["hidden_act"] = "SwiGLU", fields["tie_word_embeddings"] = true, fields["intermediate_size"] = 100;
  EXPECT_FALSE(read(fields).model.enable_weight_tying);
  EXPECT_EQ(read(fields).model.hidden_dim, 72);
}

TEST(NeoBertConfig, HasNoHomeForOtherModels) {
  const auto message = [](auto change) {
    Description d = read(published_neobert());
    change(d);
    return test::error_of([&] { format_hugging_face_config(d, DType::kFloat32); }).message();
  };
  EXPECT_THAT(message([](Description& d) { d.model.n_kv_heads = 4; }), HasSubstr("model.n_kv_heads = 4 has no home"));
  EXPECT_THAT(message([](Description& d) { d.model.hidden_dim = 2052; }), HasSubstr("model.hidden_dim = 2052"));
  EXPECT_THAT(message([](Description& d) { d.model.rope_theta = 500; }), HasSubstr("model.rope_theta = 500"));
  EXPECT_THAT(message([](Description& d) { d.model.enable_weight_tying = true; }),
              HasSubstr("model.enable_weight_tying has no home"));
  EXPECT_THAT(message([](Description& d) { d.model.sliding_window = 64; }), HasSubstr("model.sliding_window = 64"));
}

TEST(Exaone4Config, LayersWithoutAWindowDoNotRotateIfOthersHaveOne) {
  const auto model = [](const std::string& fields) {
    return read(JsonFields::parse(R"({"model_type": "exaone4", "hidden_size": 64, "num_hidden_layers": 4,
        "num_attention_heads": 4, "num_key_value_heads": 2, "intermediate_size": 96, "vocab_size": 128)" +
                                  fields + "}"))
        .model;
  };
  EXPECT_EQ(model("").no_rope_layer_interval, 4);
  EXPECT_EQ(model(R"(, "sliding_window_pattern": 2)").no_rope_layer_interval, 2);
  const std::string full = R"("full_attention")", windowed = R"("sliding_attention")";
  const auto types = [&](const std::string& a, const std::string& b) {
    return fmt::format(R"(, "sliding_window_pattern": "LG", "layer_types": [{0}, {1}, {0}, {1}])", a, b);
  };
  EXPECT_EQ(model(types(windowed, full)).no_rope_layer_interval, 2);
  EXPECT_EQ(model(types(windowed, windowed)).no_rope_layer_interval, 0);
  EXPECT_EQ(model(types(full, full)).no_rope_layer_interval, 1);
  EXPECT_EQ(model(types(full, full) + R"(, "sliding_window": null)").no_rope_layer_interval, 0);
  EXPECT_THAT(test::error_of([&] { model(types(full, windowed)); }).message(), HasSubstr("layer_types has layers"));
  EXPECT_THAT(test::error_of([&] { model(R"(, "sliding_window": 0)"); }).message(), HasSubstr("sliding_window = 0"));
  EXPECT_THAT(test::error_of([&] { model(R"(, "sliding_window": 9, "sliding_window_pattern": null)"); }).message(),
              HasSubstr("sliding_window_pattern is null"));
  Description other;
  other.model = model("");
  other.model.no_rope_layer_interval = 0;
  EXPECT_THAT(test::error_of([&] { format_hugging_face_config(other, DType::kFloat32); }).message(),
              HasSubstr("model.no_rope_layer_interval = 0 has no home"));
}

}  // namespace
}  // namespace hearth::convert
