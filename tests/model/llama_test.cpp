// SPDX-License-Identifier: Apache-2.0
// Logits, loss and all gradients against transformers' classes of the families and of Gemma 3, and against GPT-NeoX's
// arithmetic restated, with the weights carried over (float32).
#include <ATen/Context.h>
#include <ATen/TensorOperators.h>
#include <ATen/ops/linspace.h>
#include <ATen/ops/randint.h>
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <cmath>
#include <string_view>

#include "base/error.h"
#include "config/families.h"
#include "model/transformer.h"
#include "oracle_files.h"
#include "parameter_view.h"
#include "prepared.h"
#include "support/distance.h"
#include "support/environment.h"
#include "support/python.h"

namespace hearth::model {
namespace {

using config::NormType;

struct LlamaCase {
  const char* name;
  int64_t H, G;
  bool tied;
  bool halves = false;        // rotary pairs as Hugging Face has them: its weights fit as they are
  double scaling_factor = 1;  // Llama 3.1's, with a window so short that all its branches are taken
  bool causal = true;
  std::vector<int32_t> documents = {};  // the places where they start, if attention keeps to them
  NormType norm_type = NormType::kRmsNorm;
  const char* dialect = "";      // of GPT-NeoX
  const char* family = "llama";  // transformers' model_type
  int64_t K = 0;                 // 0: D / H
  int64_t window = 0;            // of the first layer, or of both
  const char* like = "";         // options of no family: "gemma3_text" or "llama_biases"
  void (*set_positions)(config::Model& m) = nullptr;
  const char* rope = "null";  // the same in transformers, as JSON
};
const std::vector<LlamaCase> kLlamaCases = {
    {"as many key heads as query heads", 4, 4, false},
    {"grouped queries", 8, 2, false},
    {"one key head, tied weights", 4, 1, true},
    {"pairs in halves", 4, 2, false, true},
    {"scaled rotation", 2, 1, false, false, 8},
    {"every position sees every other", 4, 2, false, false, 1, false},
    {"three documents in a row, and a row that begins within one", 4, 2, false, false, 1, true, {0, 9, 20, 29, 30, 49}},
    {"documents whose positions see each other", 4, 1, false, true, 1, false, {0, 5, 29, 41}}};
const std::vector<LlamaCase> kNeoxCases = {
    {"Llemma 7B's kind", 4, 4, false, true, 1, true, {}, NormType::kRmsNormNeox, "llemma"},
    {"Llemma 34B's kind: k and v in shares", 8, 2, false, true, 1, true, {}, NormType::kRmsNormNeox, "llemma"},
    {"since 2025", 4, 4, false, true, 1, true, {}, NormType::kRmsNorm, "main"},
    {"since 2025, grouped queries", 8, 2, false, true, 1, true, {}, NormType::kRmsNorm, "main"}};
LlamaCase of_family(const char* name, const char* family, int64_t H, int64_t G, int64_t K, bool tied, bool halves) {
  LlamaCase c{name, H, G, tied, halves};
  c.family = family;
  c.K = K;
  return c;
}
// transformers makes the masks.
LlamaCase windowed(LlamaCase c, int64_t window) {
  c.window = window;
  return c;
}
LlamaCase of_style(const char* name, const char* like, int64_t H, int64_t G, int64_t K, bool tied, bool halves) {
  LlamaCase c = of_family(name, "llama", H, G, K, tied, halves);
  c.like = like;
  return c;
}
const std::vector<LlamaCase> kFamilies = {
    of_family("Mistral's Nemo: heads narrower than the model", "mistral", 4, 2, 8, false, true),
    of_family("Mistral's, wide heads in neighbouring pairs", "mistral", 4, 1, 24, false, false),
    of_family("Qwen2's biases", "qwen2", 4, 2, 0, false, true),
    of_family("Qwen2's biases, tied, neighbouring pairs", "qwen2", 8, 2, 0, true, false),
    of_family("Qwen3's norms of heads", "qwen3", 4, 2, 32, false, true),
    of_family("Qwen3's norms of heads, tied, neighbouring pairs", "qwen3", 8, 2, 16, true, false),
    of_family("OLMo 2's norms of outputs and of all heads", "olmo2", 4, 4, 0, false, true),
    of_family("OLMo 2's, grouped queries, tied, neighbouring pairs", "olmo2", 8, 2, 0, true, false),
    of_family("Seed-OSS's biases, wide heads", "seed_oss", 4, 2, 24, false, true),
    of_family("Seed-OSS's, tied, neighbouring pairs", "seed_oss", 8, 2, 16, true, false),
    of_family("ERNIE 4.5's neighbouring pairs", "ernie4_5", 4, 1, 24, false, false),
    of_family("ERNIE 4.5's, tied", "ernie4_5", 8, 2, 16, true, false),
    of_family("Granite's multipliers", "granite", 4, 2, 0, false, true),
    of_family("Granite's, tied, neighbouring pairs", "granite", 8, 2, 0, true, false),
    of_family("Arcee's squares of relu without a gate", "arcee", 4, 2, 24, false, true),
    of_family("Arcee's, tied, neighbouring pairs", "arcee", 8, 2, 0, true, false),
    of_family("Gemma's GeGLU and embeddings", "gemma", 4, 1, 24, true, true),
    of_family("Gemma's, untied, neighbouring pairs", "gemma", 8, 2, 16, false, false),
    of_style("Gemma 3's norms, GeGLU and embeddings", "gemma3_text", 4, 2, 24, true, true),
    of_style("Gemma 3's, untied, neighbouring pairs", "gemma3_text", 4, 1, 16, false, false),
    of_style("Llama with all biases and gelu", "llama_biases", 4, 2, 0, false, true),
    of_family("SmolLM3's layers without rotation", "smollm3", 4, 2, 0, true, true),
    of_family("SmolLM3's, neighbouring pairs", "smollm3", 8, 2, 0, false, false),
    windowed(of_family("Mistral's window", "mistral", 4, 2, 8, false, true), 7),
    windowed(of_family("a window of one token", "mistral", 4, 1, 24, true, false), 1),
    windowed(of_family("Qwen2's window in some layers", "qwen2", 4, 2, 0, false, true), 11),
    windowed(of_family("Qwen3's window in some layers", "qwen3", 4, 2, 32, true, true), 28),
    windowed(of_family("OLMo 3's window in some layers", "olmo3", 8, 2, 0, false, true), 5)};
LlamaCase with_positions(LlamaCase c, void (*set)(config::Model& m), const char* rope) {
  c.set_positions = set;
  c.rope = rope;
  return c;
}
LlamaCase in_documents(LlamaCase c) {
  c.documents = {0, 9, 20, 29, 30, 49};
  return c;
}
using config::RopeType;
void set_no_rotation_of_full(config::Model& m) { m.no_rope_layer_interval = 2; }
void set_linear(config::Model& m) { m.rope_type = RopeType::kLinear, m.rope_scaling_factor = 4; }
void set_yarn(config::Model& m) {
  m.rope_type = RopeType::kYarn, m.rope_scaling_factor = 8, m.rope_original_seq_len = 16;
  m.rope_beta_fast = 4, m.rope_beta_slow = 0.5;
}
void set_yarn_between_pairs(config::Model& m) {
  set_yarn(m);
  m.rope_truncate = false, m.rope_attention_factor = 1.3;
}
void set_half(config::Model& m) { m.partial_rotary_factor = 0.5; }
void set_glm(config::Model& m) { set_half(m), m.qkv_bias = true; }
void set_factors(config::Model& m) {
  m.rope_type = RopeType::kLongRope, m.rope_scaling_factor = 4, m.partial_rotary_factor = 0.75;
  m.rope_short_factor = {1, 1.1, 1.2, 1.5, 1.5, 2}, m.rope_long_factor = {1, 1.5, 3, 4, 8, 20};
}
void set_short_factors(config::Model& m) { set_factors(m), m.rope_original_seq_len = 29; }  // S itself
void set_long_factors(config::Model& m) { set_factors(m), m.rope_original_seq_len = 28; }
void set_query_scale(config::Model& m) {
  m.rope_type = RopeType::kYarn, m.rope_scaling_factor = 16, m.rope_original_seq_len = 8, m.rope_attention_factor = 1;
  m.query_position_scale = 0.5;
}
void set_local(config::Model& m) {
  set_yarn(m);
  m.rope_local_theta = 500;
}
void set_linear_and_local(config::Model& m) {
  set_linear(m);
  m.rope_local_theta = 300;
}
constexpr const char* kGemmaRope =
    R"({"sliding_attention": {"rope_type": "default", "rope_theta": 300.0},
        "full_attention": {"rope_type": "linear", "factor": 4.0, "rope_theta": 10000.0}})";
constexpr const char* kLinearRope = R"({"rope_type": "linear", "factor": 4.0})";
constexpr const char* kYarnRope = R"({"rope_type": "yarn", "factor": 8.0, "original_max_position_embeddings": 16,
                                      "beta_fast": 4.0, "beta_slow": 0.5})";
constexpr const char* kYarnBetweenPairs =
    R"({"rope_type": "yarn", "factor": 8.0, "original_max_position_embeddings": 16, "beta_fast": 4.0,
        "beta_slow": 0.5, "truncate": false, "attention_factor": 1.3})";
constexpr const char* kHalfRope = R"({"rope_type": "default", "partial_rotary_factor": 0.5})";
constexpr const char* kFactorsRope =
    R"({"rope_type": "longrope", "factor": 4.0, "partial_rotary_factor": 0.75,
        "short_factor": [1, 1.1, 1.2, 1.5, 1.5, 2], "long_factor": [1, 1.5, 3, 4, 8, 20]})";
constexpr const char* kQueryScaleRope =
    R"({"rope_type": "yarn", "factor": 16.0, "original_max_position_embeddings": 8, "mscale": 1.0,
        "mscale_all_dim": 1.0, "llama_4_scaling_beta": 0.5})";
constexpr const char* kLayeredRope =
    R"({"sliding_attention": {"rope_type": "default", "rope_theta": 500.0},
        "full_attention": {"rope_type": "yarn", "factor": 8.0, "original_max_position_embeddings": 16,
                           "beta_fast": 4.0, "beta_slow": 0.5, "rope_theta": 10000.0}})";
const std::vector<LlamaCase> kOtherPositions = {
    with_positions({"all frequencies scaled alike", 4, 2, false}, set_linear, kLinearRope),
    with_positions({"YaRN", 2, 1, false, true}, set_yarn, kYarnRope),
    with_positions(of_family("YaRN between pairs, Qwen3", "qwen3", 4, 2, 32, false, false), set_yarn_between_pairs,
                   kYarnBetweenPairs),
    of_family("Phi-3's joined matrices", "phi3", 4, 2, 0, false, true),
    with_positions(of_family("half of a head rotates", "phi3", 4, 2, 0, false, false), set_half, kHalfRope),
    with_positions(of_family("GLM-4's norms, biases and neighbouring pairs", "glm4", 4, 2, 24, false, false), set_glm,
                   kHalfRope),
    with_positions(of_family("GLM-4's, tied, without biases", "glm4", 8, 2, 16, true, false), set_half, kHalfRope),
    with_positions(of_family("short factors", "phi3", 4, 1, 0, true, true), set_short_factors, kFactorsRope),
    with_positions(of_family("long factors", "phi3", 4, 4, 0, false, false), set_long_factors, kFactorsRope),
    with_positions(of_family("queries scaled by position", "ministral3", 4, 2, 24, false, true), set_query_scale,
                   kQueryScaleRope),
    in_documents(
        with_positions(of_family("queries scaled by positions in documents", "ministral3", 4, 1, 16, true, false),
                       set_query_scale, kQueryScaleRope)),
    windowed(with_positions(of_family("Gemma 3", "gemma3", 4, 2, 24, true, true), set_linear_and_local, kGemmaRope), 6),
    windowed(with_positions(of_family("layers with ropes of their own", "olmo3", 4, 2, 0, false, true), set_local,
                            kLayeredRope),
             9),
    of_family("EXAONE 4's norms, without windows", "exaone4", 4, 2, 24, true, false),
    windowed(
        with_positions(of_family("EXAONE 4: layers without a window do not rotate", "exaone4", 4, 2, 24, false, true),
                       set_no_rotation_of_full, "null"),
        7)};
void set_first_full(config::Model& m) {
  m.rope_local_theta = 300;
  m.first_full_attention_layer = 0;
}
LlamaCase encoder(const char* name, bool tied, int64_t window) {
  LlamaCase c = windowed(of_family(name, "modernbert", 4, 4, 0, tied, true), window);
  c.causal = false;
  if (window > 0) c.set_positions = set_first_full;
  return c;
}
const std::vector<LlamaCase> kEncoders = {encoder("ModernBERT", true, 10), encoder("a window of one token", true, 1),
                                          encoder("untied, without a window", false, 0)};

// Numbers that a family's models choose, and options that no family has.
void set_options(const LlamaCase& c, config::Model& m) {
  if (c.family == std::string_view("gemma3"))
    m.embedding_multiplier = std::sqrt(64.0), m.attention_multiplier = 1 / std::sqrt(40.0);
  if (c.family == std::string_view("gemma")) m.embedding_multiplier = std::sqrt(64.0);
  if (c.family == std::string_view("granite"))
    m.embedding_multiplier = 12, m.residual_multiplier = 0.22, m.attention_multiplier = 0.3, m.logits_divisor = 5;
  if (c.like == std::string_view("gemma3_text")) {
    m.norm_type = NormType::kRmsNorm1p, m.norm_placement = config::NormPlacement::kBoth, m.qk_norm = true;
    m.activation = config::Activation::kGeluTanh;
    m.embedding_multiplier = std::sqrt(64.0), m.round_embedding_multiplier = true;
    m.attention_multiplier = 1 / std::sqrt(40.0);
  }
  if (c.like == std::string_view("llama_biases")) {
    m.qkv_bias = m.output_bias = m.ffn_bias = true;
    m.activation = config::Activation::kGelu;
  }
}

// Random weights and tokens, also written to `folder` for the oracle.
Prepared prepare(const LlamaCase& c, const Path& folder) {
  config::Model m;
  m.dim = 64, m.n_layers = 2, m.n_heads = c.H, m.n_kv_heads = c.G, m.hidden_dim = 96, m.enable_weight_tying = c.tied;
  m.rope_pairs = c.halves ? config::RopePairs::kHalves : config::RopePairs::kInterleaved;
  m.rope_scaling_factor = c.scaling_factor, m.rope_original_seq_len = 64;
  m.attention_scope = c.documents.empty() ? config::AttentionScope::kWindow : config::AttentionScope::kDocument;
  m.norm_type = c.norm_type;
  m.head_dim = c.K;
  config::apply(config::find_family(c.family), m);
  if (c.set_positions != nullptr) c.set_positions(m);
  if (m.no_rope_layer_interval > 0) m.no_rope_layer_interval = 2;  // of two layers
  m.sliding_window = c.window;
  m.full_attention_interval = c.window > 0 && c.family != std::string_view("mistral") ? 2 : 0;
  set_options(c, m);
  // So large compared with the first rows that it matters where it is added.
  if (m.norm_type == config::NormType::kRmsNormNeox) m.norm_eps = 0.05;
  Prepared p{plan::model_shape(m, 131), {}, nullptr, {}, {}};
  p.shape.causal = c.causal;
  p.plan = plan::parameter_plan(p.shape);
  p.weights = std::make_unique<test::LocalWeights>(p.plan, DType::kFloat32, 17);
  make_folders(folder);
  for (const plan::Parameter& parameter : p.plan.parameters) {
    at::Tensor w = parameter_view(p.weights->gather(parameter.unit), parameter);
    // Norm weights other than one, so that a missing or doubled factor shows.
    if (parameter.init == plan::Init::kOnes) w.copy_(at::linspace(0.5, 1.5, parameter.numel));
    if (parameter.init == plan::Init::kZeros) w.copy_(at::linspace(-0.5, 0.5, parameter.numel));
    write_bytes(folder / (parameter.name + ".bin"), w);
  }
  at::manual_seed(23);
  p.tokens = at::randint(p.shape.V, {B * S}, at::kInt);
  p.labels = at::randint(p.shape.V, {B * S}, at::kInt);
  p.labels.narrow(0, 5, 7).fill_(-100);
  write_bytes(folder / "tokens.bin", p.tokens);
  write_bytes(folder / "labels.bin", p.labels);
  const plan::ModelShape& s = p.shape;
  write_file_atomic(
      folder / "case.json",
      fmt::format(
          R"({{"D": {}, "L": {}, "H": {}, "G": {}, "F": {}, "V": {}, "B": {}, "S": {}, )"
          R"("norm_eps": {}, "rope_theta": {}, "tied": {}, "halves": {}, "scaling_factor": {}, )"
          R"("original_seq_len": {}, "causal": {}, "documents": [{}], "dialect": "{}", "K": {}, "family": "{}", "R": {}, )"
          R"("rope": {}, "window": {}, "multipliers": [{}, {}, {}, {}], "qkv_bias": {}}})",
          s.D, s.L(), s.H, s.G, s.F(), s.V, B, S, s.norm.eps, s.rope.theta, s.tied, s.rope.halves,
          s.rope.scaling_factor, s.rope.original_seq_len, s.causal, fmt::join(c.documents, ", "), c.dialect, s.K,
          *c.like != 0 ? c.like : c.family, s.rope.rotary_width(s.K), c.rope, c.window, s.embedding_multiplier,
          s.residual_multiplier, s.attention_multiplier, s.logits_divisor, s.qkv_bias));
  return p;
}

void has_our_logits_loss_and_gradients(const std::string& oracle, const std::vector<LlamaCase>& cases) {
  const test::ScratchFolder scratch;
  std::string command = "tests/model/" + oracle;
  std::vector<Prepared> prepared;
  for (size_t i = 0; i < cases.size(); ++i) {
    const Path folder = scratch / std::to_string(i);
    prepared.push_back(prepare(cases[i], folder));
    command += " " + folder.string();
  }
  const auto result = test::run_python(command);
  ASSERT_EQ(result.exit_code, 0) << result.output;

  for (size_t i = 0; i < cases.size(); ++i) {
    SCOPED_TRACE(cases[i].name);
    const Path folder = scratch / std::to_string(i);
    const Prepared& p = prepared[i];
    const double counted = p.labels.ne(-100).sum().item<double>();
    Transformer model(p.shape, p.plan, B, S, {.dtype = DType::kFloat32, .loss_chunk_tokens = 16, .training = true});
    MicroBatch batch{p.tokens, p.labels, {}};
    if (!cases[i].documents.empty()) batch.document_starts_N = ops::from_int32(cases[i].documents);
    const double loss = model.loss_and_gradient(*p.weights, batch, 1 / counted).loss / counted;
    model.loss(*p.weights, batch);
    EXPECT_NEAR(loss, read_floats(folder / "loss.bin", {1}).item<float>(), 1e-5);
    EXPECT_LT(test::relative_distance(model.logits(*p.weights), read_floats(folder / "logits.bin", {B * S, p.shape.V})),
              1e-5);
    for (const plan::Parameter& parameter : p.plan.parameters) {
      const at::Tensor theirs = read_floats(folder / (parameter.name + ".grad.bin"), parameter.shape);
      EXPECT_LT(test::relative_distance(parameter_view(p.weights->gradient(parameter.unit), parameter), theirs), 1e-5)
          << parameter.name;
    }
  }
}

TEST(LlamaForCausalLM, HasOurLogitsLossAndGradients) {
  HEARTH_NEEDS_ORACLE();
  has_our_logits_loss_and_gradients("llama_oracle.py", kLlamaCases);
}

TEST(ClassesOfOtherFamilies, HaveOurLogitsLossAndGradients) {
  HEARTH_NEEDS_ORACLE();
  has_our_logits_loss_and_gradients("llama_oracle.py", kFamilies);
}

TEST(ClassesWithOtherPositions, HaveOurLogitsLossAndGradients) {
  HEARTH_NEEDS_ORACLE();
  has_our_logits_loss_and_gradients("llama_oracle.py", kOtherPositions);
}

TEST(ModernBertForMaskedLM, HasOurLogitsLossAndGradients) {
  HEARTH_NEEDS_ORACLE();
  has_our_logits_loss_and_gradients("encoder_oracle.py", kEncoders);
}

TEST(GptNeox, HasOurLogitsLossAndGradients) {
  HEARTH_NEEDS_ORACLE();
  has_our_logits_loss_and_gradients("neox_oracle.py", kNeoxCases);
}

}  // namespace
}  // namespace hearth::model
