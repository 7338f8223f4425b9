// SPDX-License-Identifier: Apache-2.0
// Logits, loss and all gradients of mixtures of experts against transformers' classes, with the weights carried over
// (float32). The oracle restates the losses of the router.
#include <ATen/Context.h>
#include <ATen/TensorOperators.h>
#include <ATen/ops/linspace.h>
#include <ATen/ops/randint.h>
#include <ATen/ops/randn.h>
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <cmath>

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

struct ExpertsCase {
  const char* name;
  const char* family;
  int64_t E, k;
  int64_t dense = 0;
  double balance = 0, z_loss = 0;
  int64_t shared = 0, groups = 1, limited_groups = 1;
  double scale = 1;
  int64_t q_lora_rank = 0;  // of latent attention
  double mscale_all_dim = 0;
};
constexpr ExpertsCase kCases[] = {{"Qwen3's experts", "qwen3_moe", 8, 3},
                                  {"with losses of the router", "qwen3_moe", 8, 2, 0, 0.7, 0.2},
                                  {"a first layer without experts", "qwen3_moe", 5, 2, 1, 0.1},
                                  {"all experts", "qwen3_moe", 4, 4, 0, 0.5},
                                  {"one expert", "olmoe", 6, 1, 0, 0.3},
                                  {"OLMoE: weights are not divided by their sum", "olmoe", 8, 3, 0, 0.2, 0.1},
                                  {"Mixtral", "mixtral", 6, 2, 0, 0.2},
                                  {"GLM-4.5", "glm4_moe", 8, 3, 1, 0.5, 0, 1},
                                  {"GLM-4.5's larger one", "glm4_moe", 6, 2, 0, 0, 0, 2, 1, 1, 2.5},
                                  {"experts of two of four groups", "glm4_moe", 8, 3, 0, 0.2, 0, 1, 4, 2},
                                  {"Trinity", "afmoe", 8, 3, 1, 0.2, 0, 2, 1, 1, 1.7},
                                  {"dots.llm1", "dots1", 8, 3, 1, 0.2, 0, 2, 4, 2, 2.5},
                                  {"its class without a division", "dots1", 6, 2, 0, 0, 0, 1, 1, 1, 1.3},
                                  {"MiniMax-M2", "minimax_m2", 8, 3, 0, 0.2},
                                  {"ERNIE 4.5", "ernie4_5_moe", 8, 3, 1, 0.2, 0.1, 2},
                                  {"its class without shared experts", "ernie4_5_moe", 6, 2, 0, 0.3},
                                  {"DeepSeek-V3", "deepseek_v3", 8, 3, 1, 0.2, 0, 1, 4, 2, 2.5, 22, 1.3},
                                  {"Moonlight", "deepseek_v3", 6, 2, 1, 0.2, 0, 2, 1, 1, 2.4},
                                  {"gpt-oss", "gpt_oss", 8, 3, 0, 0.2, 0.1},
                                  {"its class with one expert of a token", "gpt_oss", 5, 1}};

config::Model model_of(const ExpertsCase& c) {
  config::Model m;
  m.dim = 48, m.n_layers = 2, m.n_heads = 6, m.n_kv_heads = 2, m.hidden_dim = 56, m.moe_hidden_dim = 40;
  config::apply(config::find_family(c.family), m);
  m.rope_pairs = config::find_family(c.family).hugging_face.rope_pairs;
  m.num_experts = c.E, m.moe_top_k = c.k, m.n_dense_layers = c.dense;
  m.moe_aux_loss_coeff = c.balance, m.moe_z_loss_coeff = c.z_loss;
  m.num_shared_experts = c.shared, m.num_expert_groups = c.groups, m.num_limited_groups = c.limited_groups;
  m.route_scale = c.scale;
  if (std::string_view(c.family) == "glm4_moe")
    m.route_norm = m.qkv_bias = m.qk_norm = true, m.partial_rotary_factor = 0.5;
  if (std::string_view(c.family) == "deepseek_v3") {
    m.route_norm = true;
    m.n_kv_heads = 0, m.kv_lora_rank = 14, m.q_lora_rank = c.q_lora_rank;
    m.qk_nope_head_dim = 10, m.qk_rope_head_dim = 6, m.v_head_dim = 9;
    m.rope_mscale_all_dim = c.mscale_all_dim;
    if (c.mscale_all_dim > 0) {
      m.rope_type = config::RopeType::kYarn, m.rope_scaling_factor = 40, m.rope_original_seq_len = 8;
      m.rope_attention_factor = (0.07 * std::log(40.0) + 1) / (0.1 * c.mscale_all_dim * std::log(40.0) + 1);
    }
  }
  if (std::string_view(c.family) == "minimax_m2") m.partial_rotary_factor = 0.5;
  if (std::string_view(c.family) == "dots1") {
    m.route_norm = c.dense > 0;
    m.sliding_window = 7, m.layer_types = {"full_attention", "sliding_attention"};
  }
  if (std::string_view(c.family) == "gpt_oss") {
    m.sliding_window = 7, m.full_attention_interval = 2, m.head_dim = 10;
    m.rope_type = config::RopeType::kYarn, m.rope_scaling_factor = 4, m.rope_original_seq_len = 8;
    m.rope_beta_fast = 4, m.rope_beta_slow = 0.5, m.rope_truncate = false;
  }
  if (std::string_view(c.family) == "afmoe") {
    m.sliding_window = 7, m.full_attention_interval = m.no_rope_layer_interval = 2;
    m.embedding_multiplier = std::sqrt(48.0);
  }
  return m;
}

// Random weights and tokens, also written to `folder` for the oracle.
Prepared prepare(const ExpertsCase& c, const Path& folder) {
  const config::Model m = model_of(c);
  Prepared p{plan::model_shape(m, 131), {}, nullptr, {}, {}};
  p.plan = plan::parameter_plan(p.shape);
  p.weights = std::make_unique<test::LocalWeights>(p.plan, DType::kFloat32, 17);
  make_folders(folder);
  at::manual_seed(29);
  for (const plan::Parameter& parameter : p.plan.parameters) {
    at::Tensor w = parameter_view(p.weights->gather(parameter.unit), parameter);
    if (parameter.init == plan::Init::kOnes) w.copy_(at::linspace(0.5, 1.5, parameter.numel));
    // Scores that differ, so that a wrong weight of an expert shows.
    if (parameter.name.ends_with("gate.weight")) w.mul_(30);
    if (parameter.name.ends_with("bias")) w.copy_(at::linspace(-0.3, 0.4, parameter.numel).cos().mul(0.5));
    const bool of_expert = parameter.name.find("experts") != std::string::npos;
    if (of_expert && parameter.name.ends_with("bias")) w.copy_(at::randn({parameter.numel}) * 0.5);  // each its own
    if (of_expert) w.mul_(5);
    if (parameter.name.ends_with("sinks")) w.copy_(at::linspace(-2, 3, parameter.numel));
    // Some products are beyond the limits of the activation.
    if (c.family == std::string_view("gpt_oss") && parameter.name.ends_with("w1.weight")) w.mul_(5);
    if (c.family == std::string_view("gpt_oss") && parameter.name.ends_with("w3.weight")) w.mul_(5);
    write_bytes(folder / (parameter.name + ".bin"), w);
  }
  at::manual_seed(23);
  p.tokens = at::randint(p.shape.V, {B * S}, at::kInt);
  p.labels = at::randint(p.shape.V, {B * S}, at::kInt);
  p.labels.narrow(0, 5, 7).fill_(-100);
  write_bytes(folder / "tokens.bin", p.tokens);
  write_bytes(folder / "labels.bin", p.labels);
  const plan::ModelShape& s = p.shape;
  const std::string latents = fmt::format(
      R"({{"q_lora_rank": {}, "kv_lora_rank": {}, "qk_nope_head_dim": {}, "qk_rope_head_dim": {}, "v_head_dim": {}}})",
      s.q_lora_rank > 0 ? std::to_string(s.q_lora_rank) : "null", s.kv_lora_rank, s.qk_nope_head_dim,
      s.qk_rope_head_dim, s.v_head_dim);
  write_file_atomic(
      folder / "case.json",
      fmt::format(
          R"({{"D": {}, "L": {}, "H": {}, "G": {}, "K": {}, "F": {}, "F_dense": {}, "V": {}, "B": {}, "S": {}, )"
          R"("norm_eps": {}, "rope_theta": {}, "family": "{}", "E": {}, "k": {}, "dense": {}, "route_norm": {}, )"
          R"("balance": {}, "z_loss": {}, "shared": {}, "groups": {}, "limited_groups": {}, "scale": {}, )"
          R"("latents": {}, "mscale_all_dim": {}}})",
          s.D, s.L(), s.H, s.G, s.K, s.layers.back().F, m.hidden_dim, s.V, B, S, s.norm.eps, s.rope.theta, c.family,
          c.E, c.k, c.dense, s.route_norm, c.balance, c.z_loss, c.shared, c.groups, c.limited_groups, c.scale, latents,
          c.mscale_all_dim));
  return p;
}

TEST(ClassesOfExperts, HaveOurLogitsLossAndGradients) {
  HEARTH_NEEDS_ORACLE();
  const test::ScratchFolder scratch;
  std::string command = "tests/model/experts_oracle.py";
  std::vector<Prepared> prepared;
  for (const ExpertsCase& c : kCases) {
    const Path folder = scratch / std::to_string(prepared.size());
    prepared.push_back(prepare(c, folder));
    command += " " + folder.string();
  }
  const auto result = test::run_python(command);
  ASSERT_EQ(result.exit_code, 0) << result.output;
  for (size_t i = 0; i < prepared.size(); ++i) {
    SCOPED_TRACE(kCases[i].name);
    const Path folder = scratch / std::to_string(i);
    const Prepared& p = prepared[i];
    const double counted = p.labels.ne(-100).sum().item<double>();
    Transformer model(p.shape, p.plan, B, S, {.dtype = DType::kFloat32, .loss_chunk_tokens = 16, .training = true});
    const MicroBatch batch{p.tokens, p.labels, {}};
    const double loss = model.loss_and_gradient(*p.weights, batch, 1 / counted).loss / counted;
    model.loss(*p.weights, batch);
    EXPECT_NEAR(loss, read_floats(folder / "loss.bin", {1}).item<float>(), 1e-5);
    EXPECT_LT(test::relative_distance(model.logits(*p.weights), read_floats(folder / "logits.bin", {B * S, p.shape.V})),
              1e-5);
    for (const plan::Parameter& parameter : p.plan.parameters) {
      const at::Tensor theirs = read_floats(folder / (parameter.name + ".grad.bin"), parameter.shape);
      const at::Tensor ours = parameter_view(p.weights->gradient(parameter.unit), parameter);
      if (parameter.is_balanced) {
        EXPECT_EQ(ours.abs().sum().item<double>(), 0) << parameter.name;
      } else {
        EXPECT_LT(test::relative_distance(ours, theirs), 1e-5) << parameter.name;
      }
    }
  }
}

}  // namespace
}  // namespace hearth::model
