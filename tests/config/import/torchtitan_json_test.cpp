// SPDX-License-Identifier: Apache-2.0
// torchtitan's JSON files of 2026. The text has the structure that its 8B of Llama 3 gives, with two layers.
#include "config/import/imported.h"

namespace hearth::config {
namespace {

using test_import::ImportTest;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::Not;

std::string linear(int64_t in, int64_t out) {
  return fmt::format(R"J({{"param_init": {{"weight": "functools.partial(<function f at 0x7f>, std=0.02)"}},
   "sharding_config": null, "in_features": {}, "out_features": {}, "bias": false}})J",
                     in, out);
}
std::string norm(int64_t size) {
  return fmt::format(R"({{"param_init": null, "sharding_config": null, "normalized_shape": {}, "eps": 1e-05,
   "elementwise_affine": true}})",
                     size);
}

std::string layer(const std::string& inner, int64_t hidden) {
  return fmt::format(
      R"({{"param_init": null, "sharding_config": null, "attention": {{"n_heads": 32, "inner_attention": {}, "dim": 4096,
  "qkv_linear": {{"head_dim": 128, "n_heads": 32, "n_kv_heads": 8, "wqkv": {}}}, "wo": {}, "qk_norm": null,
  "n_kv_heads": 8, "head_dim": null, "rope": {{"dim": 128, "max_context_length": 131072, "theta": 500000,
   "scaling": "llama", "scaling_factor": 8.0, "low_freq_factor": 1.0, "high_freq_factor": 4.0,
   "original_max_position_embeddings": 8192, "rope_factor": 1.0, "beta_fast": 32.0, "beta_slow": 1.0,
   "original_seq_len": 4096, "truncate": true}}}},
 "feed_forward": {{"w1": {}, "w2": {}, "w3": {}}}, "moe": null, "attention_norm": {}, "ffn_norm": {}}})",
      inner, linear(4096, 6144), linear(4096, 4096), linear(4096, hidden), linear(hidden, 4096), linear(4096, hidden),
      norm(4096), norm(4096));
}

struct Json {
  std::string inner = R"({"param_init": null, "block_size": 128, "kernel_options": {}})";
  int64_t last_hidden = 14336;
  std::string groups = R"([{"pattern": ".*", "optimizer_name": "AdamW",
   "optimizer_kwargs": {"lr": 0.0003, "betas": [0.9, 0.95], "eps": 1e-08, "weight_decay": 0.1}}])";
  std::string dataset =
      R"({"dataset": {"source": {"path": "allenai/c4", "split": "train", "name": "en"}, "pre_filters": []}})";
  std::string tokens = "\"num_tokens_per_microbatch_per_dp_rank\": 16384, \"num_tokens_per_train_step\": -1";
  std::string parallelism =
      "\"tensor_parallel_degree\": 1, \"pipeline_parallel_degree\": 1, \"num_pp_microbatches\": 1";
  std::string recompute = R"({"preserve_rng_state": true, "force_recompute_mm_shapes_by_fqns": ["moe.router.gate"]})";
  std::string total_steps = "null";

  std::string text() const {
    return "{\"model_spec\": {\"name\": \"llama3\", \"flavor\": \"8B\", \"model\": {\"dim\": 4096, \"vocab_size\": "
           "128256,\n"
           " \"lm_head\": " +
           linear(4096, 128256) +
           ", \"tok_embeddings\": {\"num_embeddings\": 128256, \"embedding_dim\": 4096},\n"
           " \"norm\": " +
           norm(4096) + ", \"layers\": [\n" + layer(inner, 14336) + ",\n" + layer(inner, last_hidden) +
           "], \"enable_weight_tying\": false}},\n"
           "\"hf_assets_path\": \"./assets/hf/Llama-3.1-8B\", \"dump_folder\": \"./outputs\",\n"
           "\"profiler\": {\"enable_profiling\": true, \"profile_freq\": 100},\n"
           "\"metrics\": {\"log_freq\": 10, \"enable_tensorboard\": true, \"save_tb_folder\": \"tb\", "
           "\"enable_wandb\": false},\n"
           "\"tokenizer\": {}, \"dataloader\": {\"dataset\": " +
           dataset +
           ", \"seed\": 42, \"shuffle\": true, \"repeat\": true},\n"
           "\"optimizer\": {\"param_groups\": " +
           groups +
           ", \"implementation\": \"fused\", \"optimizer_factory_kwargs_by_name\": {}},\n"
           "\"lr_scheduler\": {\"warmup_steps\": 200, \"total_steps\": " +
           total_steps +
           ", \"decay_ratio\": null, \"decay_type\": \"linear\", \"min_lr_factor\": 0.1},\n"
           "\"training\": {" +
           tokens +
           ", \"max_context_length\": 8192, \"max_norm\": 1.0, \"steps\": 1000, \"dtype\": \"float32\",\n"
           " \"mixed_precision_param\": \"bfloat16\", \"mixed_precision_reduce\": \"float32\", \"gc_freq\": 50},\n"
           "\"parallelism\": {\"data_parallel_replicate_degree\": 1, \"data_parallel_shard_degree\": -1, "
           "\"fsdp_reshard_after_forward\": \"default\",\n"
           " \"context_parallel_degree\": 1, \"pipeline_parallel_schedule\": \"1F1B\", "
           "\"pipeline_parallel_layers_per_stage\": null,\n"
           " \"module_fqns_per_model_part\": null, \"spmd_backend\": \"spmd_types\", " +
           parallelism +
           "},\n"
           "\"checkpoint\": {\"enable\": true, \"folder\": \"checkpoint\", \"interval\": 250, \"initial_load_path\": "
           "null, \"initial_load_model_only\": true,\n"
           " \"last_save_model_only\": true, \"export_dtype\": \"bfloat16\", \"keep_latest_k\": 3, \"load_step\": -1, "
           "\"async_mode\": \"disabled\"},\n"
           "\"activation_checkpoint\": " +
           recompute +
           ", \"compile\": {\"enable\": false}, \"comm\": {\"train_timeout_seconds\": 100, \"mode\": \"default\"},\n"
           "\"validator\": {\"freq\": 500, \"enable\": true, \"steps\": 12, \"dataloader\": {\"dataset\": "
           "{\"dataset\": {\"source\": {\"path\": \"allenai/c4\"}}}}},\n"
           "\"debug\": {\"seed\": 3, \"save_config_file\": \"config.json\"}, \"override\": {\"imports\": []}, "
           "\"loss\": {\"num_chunks\": 8, \"loss_fn\": {\"global_vocab_size\": 128256}}}\n";
  }
};

TEST_F(ImportTest, AJsonFileOfTorchtitanGivesTheModelThatItSpellsOut) {
  const std::string text = import_text({{"config.json", Json{}.text()}}, {.ranks = 16});
  const RunConfig c = read_run_text(text, "imported.toml", ".").config;
  // The shape is that of the flavor, but for its two layers and its widths, which stand there as numbers.
  const RunConfig flavor =
      read_run_text("[model]\nname = \"llama3.1\"\nflavor = \"8B\"\nvocab_size = 128256\n", "f", ".").config;
  EXPECT_EQ(c.model.dim, flavor.model.dim);
  EXPECT_EQ(c.model.n_heads, flavor.model.n_heads);
  EXPECT_EQ(c.model.n_kv_heads, flavor.model.n_kv_heads);
  EXPECT_EQ(c.model.rope_theta, flavor.model.rope_theta);
  EXPECT_EQ(c.model.rope_scaling_factor, flavor.model.rope_scaling_factor);
  EXPECT_EQ(c.model.vocab_size, flavor.model.vocab_size);
  EXPECT_EQ(c.model.n_layers, 2);
  EXPECT_EQ(c.model.hidden_dim, 14336);
  EXPECT_EQ(c.model.head_dim, 128);
  EXPECT_EQ(c.model.attention_scope, AttentionScope::kDocument);
  EXPECT_EQ(c.training.local_batch_size, 2);  // 16384 tokens in windows of 8192
  EXPECT_EQ(c.training.global_batch_size, 32);
  EXPECT_EQ(c.training.seq_len, 8192);
  EXPECT_EQ(c.training.steps, 1000);
  EXPECT_EQ(c.training.seed, 3);
  EXPECT_EQ(c.optimizer.lr, 3e-4);
  EXPECT_EQ(c.optimizer.weight_decay_on, WeightDecayOn::kAll);
  EXPECT_EQ(c.lr_scheduler.min_lr_factor, 0.1);
  EXPECT_EQ(c.lr_scheduler.rule, ScheduleRule::kTorchtitan);
  EXPECT_EQ(c.parallelism.data_parallel_shard_degree, 16);
  EXPECT_EQ(c.parallelism.zero_stage, 3);
  EXPECT_EQ(c.checkpoint.interval, 250);
  EXPECT_EQ(c.checkpoint.keep_latest_k, 3);
  EXPECT_TRUE(c.checkpoint.last_save_model_only);
  EXPECT_EQ(c.checkpoint.export_dtype, DType::kBFloat16);
  EXPECT_EQ(c.memory.recompute, RecomputeChoice::kNorms);
  EXPECT_EQ(c.memory.loss_chunk_tokens, 2048);
  EXPECT_EQ(c.validation.freq, 500);
  EXPECT_EQ(c.validation.steps, 12);
  EXPECT_EQ(c.data.path, "data/c4");
  EXPECT_TRUE(c.profiling.enable_profiling);
  EXPECT_EQ(c.profiling.profile_freq, 100);
  EXPECT_THAT(text, Not(HasSubstr("0x7f")));
}

TEST_F(ImportTest, GroupsMixturesAndLayoutsOfTorchtitansJsonAreFollowed) {
  Json json;
  json.inner = "{\"param_init\": null}";
  json.groups = R"([{"pattern": "norm", "optimizer_name": "AdamW",
     "optimizer_kwargs": {"lr": 0.0003, "betas": [0.9, 0.95], "eps": 1e-08, "weight_decay": 0.0}},
   {"pattern": "^tok_embeddings\\..*", "optimizer_name": "AdamW",
     "optimizer_kwargs": {"lr": 0.0006, "betas": [0.9, 0.95], "eps": 1e-08, "weight_decay": 0.1}},
   {"pattern": ".*", "optimizer_name": "AdamW",
     "optimizer_kwargs": {"lr": 0.0003, "betas": [0.9, 0.95], "eps": 1e-08, "weight_decay": 0.1}}])";
  json.dataset = R"({"dataset": {"datasets": [
     {"dataset": {"source": {"path": "a/web"}}, "weight": 3.0}, {"dataset": {"source": {"path": "b/code"}}, "weight": 1.0}]},
     "num_packing_bins": 8})";
  json.tokens = "\"num_tokens_per_microbatch_per_dp_rank\": 8192, \"num_tokens_per_train_step\": 524288";
  json.parallelism = "\"tensor_parallel_degree\": 2, \"pipeline_parallel_degree\": 2, \"num_pp_microbatches\": 4";
  json.recompute = R"({"preserve_rng_state": true, "determinism_check": "default"})";
  const RunConfig c = import({{"config.json", json.text()}}, {.ranks = 16}).config;
  ASSERT_EQ(c.optimizer.group.size(), 2u);
  EXPECT_EQ(c.optimizer.group[0].pattern, "*norm*");
  EXPECT_EQ(c.optimizer.group[0].weight_decay, 0);
  EXPECT_EQ(c.optimizer.group[0].lr_factor, 1);
  EXPECT_EQ(c.optimizer.group[1].pattern, "tok_embeddings.*");
  EXPECT_DOUBLE_EQ(c.optimizer.group[1].lr_factor, 2);
  ASSERT_EQ(c.data.source.size(), 2u);
  EXPECT_EQ(c.data.source[0].path, "data/web");
  EXPECT_EQ(c.data.source[0].weight, 3);
  EXPECT_EQ(c.data.weight_unit, WeightUnit::kDocuments);
  EXPECT_EQ(c.data.packing, Packing::kBestFit);
  EXPECT_EQ(c.training.global_batch_size, 64);
  EXPECT_EQ(c.training.local_batch_size, 4);
  EXPECT_EQ(c.parallelism.pipeline_parallel_degree, 2);
  EXPECT_EQ(c.parallelism.pipeline_parallel_microbatch_size, 1);
  EXPECT_EQ(c.parallelism.data_parallel_shard_degree, 4);
  EXPECT_EQ(c.memory.recompute, RecomputeChoice::kBlock);
  EXPECT_EQ(c.model.attention_scope, AttentionScope::kWindow);
}

TEST_F(ImportTest, SettingsOfTorchtitansGroupsThatHearthDoesNotHaveAreRefused) {
  const auto text = [](const std::string& first, const std::string& last) {
    Json json;
    json.groups =
        fmt::format(R"([{{"pattern": "norm", "optimizer_name": "AdamW", "optimizer_kwargs": {{"lr": 1e-3{}}}}},
   {{"pattern": ".*", "optimizer_name": "AdamW", "optimizer_kwargs": {{"lr": 1e-3{}}}}}])",
                    first, last);
    return error({{"config.json", json.text()}}, {.ranks = 1});
  };
  EXPECT_THAT(text(R"(, "amsgrad": true, "fused": true)", ""),
              HasSubstr("optimizer.param_groups.0.optimizer_kwargs.amsgrad = true: a group's AdamW has lr, betas, eps "
                        "and weight_decay"));
  // What is not given is torch's default, not what the other group has.
  EXPECT_THAT(text("", R"(, "betas": [0.9, 0.95])"),
              HasSubstr("optimizer.param_groups.0.pattern = \"norm\": all groups have the same betas and eps"));
  EXPECT_THAT(text(R"(, "betas": [0.9, 0.999], "eps": 1e-8)", R"(, "foreach": false)"), HasSubstr("imported"));
  Json adam;
  adam.groups = R"([{"pattern": ".*", "optimizer_name": "Adam", "optimizer_kwargs": {"lr": 1e-3}}])";
  EXPECT_EQ(import({{"config.json", adam.text()}}, {.ranks = 1}).config.optimizer.weight_decay, 0);
  Json whole;
  whole.parallelism =
      "\"tensor_parallel_degree\": 1, \"pipeline_parallel_degree\": 1, \"data_parallel_shard_degree\": 4";
  std::string twice = whole.text();
  twice.replace(twice.find("\"data_parallel_shard_degree\": -1, "), 36, "");
  EXPECT_THAT(error({{"config.json", twice}}, {.ranks = 8}),
              HasSubstr("8 ranks are given, and the degrees in the file make 4"));
  Json concat;
  concat.dataset = R"({"dataset": {"datasets": [{"source": {"path": "a/web"}}, {"source": {"path": "b/code"}}]}})";
  EXPECT_THAT(error({{"config.json", concat.text()}}, {.ranks = 1}),
              HasSubstr("dataloader.dataset.dataset.datasets.1.source.path = \"b/code\": these datasets follow each "
                        "other, without weights"));
}

TEST_F(ImportTest, WhatTorchtitansJsonHasAndHearthDoesNotIsRefusedByLine) {
  Json json;
  json.last_hidden = 8192;
  EXPECT_THAT(error({{"config.json", json.text()}}, {.ranks = 1}),
              HasSubstr("model_spec.model.layers.1.feed_forward.w1.out_features = 8192 differs from layer 0's\n"
                        "  fix: all layers have one shape"));
  json = {};
  json.total_steps = "5000";
  json.tokens = "\"num_tokens_per_microbatch_per_dp_rank\": 10000, \"num_tokens_per_train_step\": -1";
  json.groups = R"J([{"pattern": "(a|b)", "optimizer_name": "DistMuon", "optimizer_kwargs": {"lr": 0.02}},
   {"pattern": "wq", "optimizer_name": "AdamW", "optimizer_kwargs": {"lr": 0.02}}])J";
  const std::string text = error({{"config.json", json.text()}}, {.ranks = 1});
  EXPECT_THAT(text, HasSubstr("lr_scheduler.total_steps = 5000: the schedule has the length of the training"));
  EXPECT_THAT(
      text,
      HasSubstr("num_tokens_per_microbatch_per_dp_rank = 10000: not a multiple of training.max_context_length = 8192"));
  EXPECT_THAT(text, HasSubstr("optimizer.param_groups.0.pattern = \"(a|b)\": a pattern has * for any text"));
  EXPECT_THAT(text, HasSubstr("optimizer.param_groups.0.optimizer_name = \"DistMuon\": all groups have AdamW"));
  EXPECT_THAT(text, HasSubstr("optimizer.param_groups.1.pattern = \"wq\": the last group has all other weights"));
}

}  // namespace
}  // namespace hearth::config
