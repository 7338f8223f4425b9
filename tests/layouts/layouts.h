// SPDX-License-Identifier: Apache-2.0
// The table of layouts: every way to place a training on ranks trains the same model. Each layout trains each task and
// is compared with one rank, step by step and in its last weights.
#pragma once

#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <utility>

#include "config/derived.h"
#include "config/families.h"
#include "formats/npy.h"
#include "train/tiny_run.h"

namespace hearth::test {

using config::Parallelism;
using enum config::PipelineSchedule;
using train::step_of;
using train::tensors_of;

struct Layout {
  const char* name;
  Parallelism ranks;
};

// clang-format off
inline const std::vector<Layout> kLayouts = {
    {"dp2", {.data_parallel_shard_degree = 2}},
    {"dp4_zero2", {.data_parallel_shard_degree = 4, .zero_stage = 2}},
    {"dp2_zero3", {.data_parallel_shard_degree = 2, .zero_stage = 3}},
    {"dp2_zero3_once", {.data_parallel_shard_degree = 2, .zero_stage = 3, .reduce_once_per_step = true}},
    {"hsdp2x2_zero3", {.data_parallel_replicate_degree = 2, .data_parallel_shard_degree = 2, .zero_stage = 3}},
    {"tp2", {.tensor_parallel_degree = 2}},
    {"tp4", {.tensor_parallel_degree = 4}},
    {"tp2_dp2", {.data_parallel_shard_degree = 2, .tensor_parallel_degree = 2}},
    {"tp2_dp2_zero2", {.data_parallel_shard_degree = 2, .zero_stage = 2, .tensor_parallel_degree = 2}},
    {"tp2_hsdp2x2_zero3", {.data_parallel_replicate_degree = 2, .data_parallel_shard_degree = 2, .zero_stage = 3,
                           .tensor_parallel_degree = 2}},
    {"cp2", {.context_parallel_degree = 2}},
    {"cp4", {.context_parallel_degree = 4}},
    {"cp8", {.context_parallel_degree = 8}},  // more ranks than key/value heads
    {"cp16", {.context_parallel_degree = 16}},  // more ranks than heads: two groups gather keys
    {"cp2_dp2_zero3", {.data_parallel_shard_degree = 2, .zero_stage = 3, .context_parallel_degree = 2}},
    {"tp4_cp4", {.context_parallel_degree = 4, .tensor_parallel_degree = 4}},  // the same
    {"tp2_cp2", {.context_parallel_degree = 2, .tensor_parallel_degree = 2}},
    {"pp2_gpipe", {.pipeline_parallel_degree = 2, .pipeline_parallel_schedule = kGPipe}},
    {"pp2", {.pipeline_parallel_degree = 2}},
    {"pp4", {.pipeline_parallel_degree = 4}},
    {"pp2_interleaved", {.pipeline_parallel_degree = 2, .pipeline_parallel_schedule = kInterleaved1F1B}},
    {"pp2_zero_bubble", {.pipeline_parallel_degree = 2, .pipeline_parallel_schedule = kInterleavedZeroBubble}},
    {"pp4_zero_bubble", {.pipeline_parallel_degree = 4, .pipeline_parallel_schedule = kInterleavedZeroBubble,
                         .pipeline_parallel_layers_per_stage = 2}},  // one stage per rank: ZB-H1
    {"pp2_dp2_zero3", {.data_parallel_shard_degree = 2, .zero_stage = 3, .pipeline_parallel_degree = 2}},
    {"pp2_hsdp2x2_zero3_once", {.data_parallel_replicate_degree = 2, .data_parallel_shard_degree = 2, .zero_stage = 3,
                                .reduce_once_per_step = true, .pipeline_parallel_degree = 2}},
    {"pp2_tp2_zero2", {.data_parallel_shard_degree = 1, .zero_stage = 2, .tensor_parallel_degree = 2,
                       .pipeline_parallel_degree = 2}},
    {"pp2_tp2_dp2", {.data_parallel_shard_degree = 2, .tensor_parallel_degree = 2, .pipeline_parallel_degree = 2,
                     .pipeline_parallel_schedule = kInterleavedZeroBubble}},
    {"pp2_cp2", {.context_parallel_degree = 2, .pipeline_parallel_degree = 2}},
};
// clang-format on

// Experts on ranks of their own, over every axis that these ranks may come from.
// clang-format off
inline const std::vector<Layout> kExpertLayouts = {
    {"ep2", {.data_parallel_shard_degree = 2, .expert_parallel_degree = 2}},
    {"ep2_dp4_zero2", {.data_parallel_shard_degree = 4, .zero_stage = 2, .expert_parallel_degree = 2}},
    {"ep2_dp4_zero3", {.data_parallel_shard_degree = 4, .zero_stage = 3, .expert_parallel_degree = 2}},
    {"ep4_dp4_zero3", {.data_parallel_shard_degree = 4, .zero_stage = 3, .expert_parallel_degree = 4}},
    {"ep5_dp5", {.data_parallel_shard_degree = 5, .expert_parallel_degree = 5}},
    {"ep2_hsdp2x2_zero3", {.data_parallel_replicate_degree = 2, .data_parallel_shard_degree = 2, .zero_stage = 3,
                           .expert_parallel_degree = 2}},
    {"ep2_hsdp2x4_zero3_once", {.data_parallel_replicate_degree = 2, .data_parallel_shard_degree = 4, .zero_stage = 3,
                                .reduce_once_per_step = true, .expert_parallel_degree = 2}},
    {"ep2_tp2", {.tensor_parallel_degree = 2, .expert_parallel_degree = 2}},
    {"ep4_tp2_dp2_zero3", {.data_parallel_shard_degree = 2, .zero_stage = 3, .tensor_parallel_degree = 2,
                           .expert_parallel_degree = 4}},
    {"ep2_tp4", {.tensor_parallel_degree = 4, .expert_parallel_degree = 2}},
    {"ep2_cp2", {.context_parallel_degree = 2, .expert_parallel_degree = 2}},
    {"ep4_cp2_dp2", {.data_parallel_shard_degree = 2, .context_parallel_degree = 2, .expert_parallel_degree = 4}},
    {"ep4_tp2_cp2", {.context_parallel_degree = 2, .tensor_parallel_degree = 2, .expert_parallel_degree = 4}},
    {"ep2_dp2_pp2", {.data_parallel_shard_degree = 2, .pipeline_parallel_degree = 2, .expert_parallel_degree = 2}},
    {"ep2_tp2_pp2_zero_bubble", {.tensor_parallel_degree = 2, .pipeline_parallel_degree = 2,
                                 .expert_parallel_degree = 2, .pipeline_parallel_schedule = kInterleavedZeroBubble}},
    {"ep2_dp2_pp2_interleaved", {.data_parallel_shard_degree = 2, .pipeline_parallel_degree = 2,
                                 .expert_parallel_degree = 2, .pipeline_parallel_schedule = kInterleaved1F1B}},
};
// clang-format on

// Every task clips, accumulates gradients over micro-batches, has a z-loss and a vocabulary that no layout divides.
//   kCausal     windows of text; YaRN, with queries that are scaled by their positions
//   kDocuments  attention within documents, several a window; two sequences a micro-batch; another norm; a layer
//               without rotation; windows; biases of all matrices; sinks of attention; no gate; Granite's multipliers
//   kMasked     hidden tokens, with micro-batches that hide nothing; tied weights, with a multiplier of embeddings;
//               blocks are computed again; OLMo 2's norms with one added to their weights; windows to both sides, in
//               every second layer, with a rotation of their own; a norm of embeddings, and a bias of logits
//   kSpikes     arrays with weights of tokens; frozen parameters; heads of a width of their own, with norms and biases,
//               half of each rotates; two layers without rotation, and two with a window; norms of inputs and outputs
//   kDiffusion  hidden tokens at a rate for each document, several a window, some windows cut; shifted logits;
//               ModernBERT's norm of embeddings, first layer, prediction head and bias of logits
//   kExperts    experts behind a dense layer, with both losses of the router; two sequences a micro-batch. In float64
//               as GLM-4.5 has them: sigmoids with a bias that moves, groups, and shared experts; and a gate of
//               attention
enum class Task { kCausal, kDocuments, kMasked, kSpikes, kDiffusion, kExperts };
inline constexpr Task kTasks[] = {Task::kCausal, Task::kDocuments, Task::kMasked,
                                  Task::kSpikes, Task::kDiffusion, Task::kExperts};
inline const char* name_of(Task task) {
  constexpr const char* kNames[] = {"causal", "documents", "masked", "spikes", "diffusion", "experts"};
  return kNames[static_cast<size_t>(task)];
}

class Layouts : public ::testing::Test {
 public:
  // Task data are built once a process.
  static void SetUpTestSuite() {
    folder_ = std::make_unique<ScratchFolder>();
    train::build_tiny_data(*folder_);
    train::build_tiny_data(*folder_ / "short", /*words_per_document=*/9);
    train::build_tiny_spikes(*folder_, "spikes", 12);
    std::vector<float> weights(256);
    for (size_t i = 0; i < weights.size(); ++i) weights[i] = static_cast<float>(1 + i % 3);
    formats::write_npy_vector(*folder_ / "weights.npy", weights);
  }
  static void TearDownTestSuite() { folder_.reset(); }

  static config::RunConfig run_of(Task task, DType dtype, int64_t steps, const std::string& name) {
    config::RunConfig c = train::tiny_config(*folder_);
    c.job.dump_folder = fmt::format("{}-{}-{}", name_of(task), dtype_name(dtype), name);
    c.model.n_layers = 4;
    c.model.n_heads = 8;
    c.model.n_kv_heads = 4;
    c.training.dtype = dtype == DType::kBFloat16 ? DType::kFloat32 : dtype;
    c.training.mixed_precision_param = dtype == DType::kBFloat16 ? dtype : DType::kFloat32;
    c.training.local_batch_size = 1;
    c.training.steps = steps;
    c.training.max_norm = 0.5;
    c.checkpoint.interval = 0;
    c.validation.freq = steps;
    c.validation.steps = 1;
    c.objective.z_loss = 1e-3;
    if (task == Task::kCausal) {
      c.model.rope_type = config::RopeType::kYarn;
      c.model.rope_scaling_factor = 8;
      c.model.rope_original_seq_len = 8;
      c.model.query_position_scale = 0.5;
    }
    if (task == Task::kDocuments) {
      c.data.path = "short/data";
      c.model.attention_scope = config::AttentionScope::kDocument;
      c.model.norm_type = config::NormType::kLayerNorm;
      c.model.no_rope_layer_interval = 3;
      c.model.sliding_window = 5;
      c.model.output_bias = c.model.ffn_bias = c.model.attention_sinks = true;
      c.model.activation = config::Activation::kRelu2;
      c.model.gated_ffn = false;
      c.model.residual_multiplier = 0.4;
      c.model.attention_multiplier = 0.6;
      c.model.logits_divisor = 2;
      c.training.local_batch_size = 2;
    }
    if (task == Task::kMasked) {
      c.model.enable_weight_tying = true;
      c.memory.recompute = config::RecomputeChoice::kBlock;
      c.model.vocab_size = 259;  // a row for the mask
      c.objective.kind = config::ObjectiveKind::kMaskedLm;
      c.objective.mask_id = 258;
      c.objective.mlm_probability = 0.05;  // many micro-batches hide nothing
      config::apply(config::find_family("olmo2"), c.model);
      c.model.norm_type = config::NormType::kRmsNorm1p;
      c.model.embedding_multiplier = 1.5;
      c.model.sliding_window = 8;
      c.model.full_attention_interval = 2;
      c.model.rope_local_theta = 300;
      c.model.decoder_bias = true;
      // In float32 rounding decides the sign of some gradients of its weights. Adam's first update goes by the sign.
      c.model.embedding_norm = dtype == DType::kFloat64;
    }
    if (task == Task::kDiffusion) {
      c.data.path = "short/data";
      c.model.attention_scope = config::AttentionScope::kDocument;
      c.model.vocab_size = 259;  // a row for the mask
      c.objective.kind = config::ObjectiveKind::kMaskedDiffusion;
      c.objective.mask_id = 258;
      c.objective.shift_logits = true;
      config::apply(config::find_family("modernbert"), c.model);
      c.objective.random_length_prob = 0.3;
      c.validation.mc_num = 3;
    }
    if (task == Task::kExperts) {
      c.model.num_experts = 6;
      c.model.moe_top_k = 2;
      c.model.moe_hidden_dim = 32;
      c.model.n_dense_layers = 1;
      c.model.moe_aux_loss_coeff = 0.1;
      c.training.local_batch_size = 2;
      dtype == DType::kFloat64 ? be_as_glm(c.model) : be_as_qwen(c.model);
    }
    if (task == Task::kSpikes) {
      c.data.path = "spikes";
      c.training.token_weights = "weights.npy";
      c.checkpoint.freeze = {"layers.0.attention.wo.weight", "layers.1.ffn_norm.weight", "layers.1.attention.wk.bias",
                             "layers.2.attention.q_norm.weight"};
      c.model.no_rope_layer_interval = 2;
      c.model.sliding_window = 3;
      c.model.layer_types = {"sliding_attention", "full_attention", "full_attention", "sliding_attention"};
      c.model.norm_placement = config::NormPlacement::kBoth;
      c.model.activation = config::Activation::kGeluTanh;
      c.model.partial_rotary_factor = 0.5;
      norm_heads(c);
    }
    return c;
  }

  static void be_as_qwen(config::Model& m) {
    config::apply(config::find_family("qwen3_moe"), m);
    m.score_func = config::ScoreFunc::kSoftmax;
    m.expert_bias = false;
    m.moe_z_loss_coeff = 0.01;
    m.attention_gate = false;
    m.num_shared_experts = 0;
    m.num_expert_groups = m.num_limited_groups = 1;
  }
  static void be_as_glm(config::Model& m) {
    config::apply(config::find_family("glm4_moe"), m);
    m.route_norm = true;
    m.moe_z_loss_coeff = 0;
    m.attention_gate = true;
    m.num_shared_experts = 2;
    m.num_expert_groups = 3;
    m.num_limited_groups = 2;
    m.load_balance_coeff = 0.02;  // so fast that it matters within a few steps
  }

  // All heads together are wider than the model.
  static void norm_heads(config::RunConfig& c) {
    c.model.head_dim = 8;
    c.model.qkv_bias = c.model.qk_norm = true;
  }

  struct Result {
    std::vector<metrics::StepRecord> records;
    std::map<std::string, std::vector<std::byte>> tensors;
  };
  static Result result_of(const config::RunConfig& c) {
    return {train::train(c), tensors_of(step_of(c, c.training.steps))};
  }

  static Result trained(const config::RunConfig& one, const Layout& layout) {
    config::RunConfig c = one;
    c.job.dump_folder += std::string("-") + layout.name;
    c.parallelism = layout.ranks;
    c.training.threads = layout.ranks.ranks();
    if (layout.ranks.pipeline_parallel_degree > 1) {  // all micro-batches of a rank pass through together
      c.parallelism.pipeline_parallel_microbatch_size = one.training.local_batch_size;
      c.training.local_batch_size = config::global_batch_size(one) / layout.ranks.data_ranks();
    }
    return result_of(c);
  }

  // Losses, gradient norms and validation losses within `tolerance`, relative.
  static void expect_near(const Result& a, const Result& b, double tolerance, size_t begin = 0) {
    ASSERT_EQ(a.records.size(), b.records.size());
    const auto near = [&](std::optional<double> x, std::optional<double> y, const char* what) {
      ASSERT_EQ(x.has_value(), y.has_value()) << what;
      if (x) {
        EXPECT_NEAR(*x / *y, 1, tolerance) << what;
      }
    };
    for (size_t i = begin; i < a.records.size(); ++i) {
      SCOPED_TRACE(fmt::format("step {}", a.records[i].step));
      near(a.records[i].loss, b.records[i].loss, "loss");
      near(a.records[i].grad_norm, b.records[i].grad_norm, "norm");
      near(a.records[i].validation_loss, b.records[i].validation_loss, "validation");
      ASSERT_EQ(a.records[i].loss_parts.size(), b.records[i].loss_parts.size());
      for (const auto& [name, value] : a.records[i].loss_parts)
        near(value, b.records[i].loss_parts.at(name), name.c_str());
      // In float32 two scores may be so near that rounding decides.
      if (tolerance > 1e-6) continue;
      ASSERT_EQ(a.records[i].expert_loads.size(), b.records[i].expert_loads.size());
      for (size_t layer = 0; layer < a.records[i].expert_loads.size(); ++layer) {
        metrics::ExpertLoad load = a.records[i].expert_loads[layer], other = b.records[i].expert_loads[layer];
        near(std::exchange(load.entropy, 0), std::exchange(other.entropy, 0), "entropy");
        EXPECT_EQ(load, other);
      }
    }
  }

  static void expect_losses_near(const Result& a, const Result& b, int64_t last_step, double tolerance) {
    for (size_t i = 0; i < a.records.size(); ++i) {
      if (a.records[i].step > last_step || !a.records[i].loss) continue;
      EXPECT_NEAR(*a.records[i].loss / *b.records[i].loss, 1, tolerance) << "step " << a.records[i].step;
    }
  }

  // Every tensor of the checkpoint in float64: relative distance of all its elements.
  static void expect_tensors_near(const Result& a, const Result& b, double tolerance) {
    ASSERT_EQ(a.tensors.size(), b.tensors.size());
    for (const auto& [name, bytes] : a.tensors) {
      const std::vector<std::byte>& other = b.tensors.at(name);
      ASSERT_EQ(bytes.size(), other.size()) << name;
      if (name.ends_with(".step")) {
        EXPECT_EQ(bytes, other) << name;
        continue;
      }
      std::vector<double> x(bytes.size() / sizeof(double)), y(x.size());
      std::memcpy(x.data(), bytes.data(), bytes.size());
      std::memcpy(y.data(), other.data(), bytes.size());
      double difference = 0, norm = 0;
      for (size_t i = 0; i < x.size(); ++i) {
        difference += (x[i] - y[i]) * (x[i] - y[i]);
        norm += y[i] * y[i];
      }
      EXPECT_LE(std::sqrt(difference), tolerance * std::sqrt(norm)) << name;
    }
  }

  // Every layout trains as one rank does, in float64. Adam divides by the square root of small second moments.
  static void expect_as_one_rank(const config::RunConfig& run, const std::vector<Layout>& layouts) {
    const Result one = result_of(run);
    for (const Layout& layout : layouts) {
      SCOPED_TRACE(layout.name);
      const Result several = trained(run, layout);
      expect_near(several, one, 1e-9);
      expect_tensors_near(several, one, 1e-7);
    }
  }

  // Each step in another layout, from the checkpoint of the one before, has the curve of one rank.
  static void expect_changes_as_one_rank(config::RunConfig run, const std::vector<Layout>& layouts) {
    const auto steps = static_cast<int64_t>(layouts.size());
    run.lr_scheduler.warmup_steps = 1;  // a warm-up longer than the run is cut
    run.validation.freq = 0;
    run.training.steps = steps;
    const Result one = result_of(run);
    run.job.dump_folder += "-changing";
    for (int64_t step = 1; step <= steps; ++step) {
      run.parallelism = layouts[static_cast<size_t>(step - 1)].ranks;
      run.training.threads = run.parallelism.ranks();
      run.training.steps = step;
      train::train(run);
    }
    const Result changing = {metrics::read_metrics(run.run_folder() / "metrics.jsonl"),
                             tensors_of(step_of(run, steps))};
    expect_near(changing, one, 1e-9);
    expect_tensors_near(changing, one, 1e-7);
  }

  static inline std::unique_ptr<ScratchFolder> folder_;
};

class ExpertLayouts : public Layouts {
 public:
  static config::RunConfig expert_run(DType dtype, int64_t steps, const std::string& name) {
    config::RunConfig run = run_of(Task::kExperts, dtype, steps, name);
    run.model.num_experts = 20;
    run.model.moe_top_k = 3;
    if (run.model.num_expert_groups > 1) run.model.num_expert_groups = 5;
    run.training.global_batch_size = 80;
    return run;
  }
};

}  // namespace hearth::test
