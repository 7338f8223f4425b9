// SPDX-License-Identifier: Apache-2.0
#include "config/familiar_names.h"

#include "base/text.h"

namespace hearth::config {
namespace {

struct FamiliarRow {
  std::string_view ours, theirs;  // theirs: with spaces between them
};

// Transformers', Megatron-LM's, GPT-NeoX's, DeepSpeed's and nanoGPT's, and what people type.
constexpr FamiliarRow kFamiliarNames[] = {
    {"job.dump_folder", "output_dir out_dir save"},
    {"model.dim", "hidden_size d_model n_embd"},
    {"model.n_layers", "num_layers num_hidden_layers n_layer depth"},
    {"model.n_heads", "num_attention_heads num_heads n_head"},
    {"model.n_kv_heads", "num_key_value_heads num_query_groups num_kv_heads"},
    {"model.hidden_dim", "intermediate_size ffn_hidden_size"},
    {"model.head_dim", "kv_channels"},
    {"model.norm_eps", "rms_norm_eps norm_epsilon layernorm_epsilon"},
    {"model.rope_theta", "rotary_base rotary_emb_base"},
    {"model.enable_weight_tying", "tie_word_embeddings"},
    {"model.vocab_size", "padded_vocab_size"},
    {"objective.mlm_probability", "mask_prob mlm_prob"},
    {"optimizer.lr", "learning_rate max_lr"},
    {"optimizer.beta1", "adam_beta1"},
    {"optimizer.beta2", "adam_beta2"},
    {"optimizer.eps", "adam_eps adam_epsilon"},
    {"lr_scheduler.min_lr_factor", "min_lr"},
    {"lr_scheduler.warmup_fraction", "warmup_ratio"},
    {"lr_scheduler.warmup_steps", "warmup_iters lr_warmup_iters"},
    {"lr_scheduler.decay_type", "lr_scheduler_type lr_decay_style"},
    {"training.seq_len", "seq_length block_size max_seq_len context_length max_position_embeddings"},
    {"training.local_batch_size", "per_device_train_batch_size micro_batch_size train_micro_batch_size_per_gpu"},
    {"training.global_batch_size", "batch_size train_batch_size gradient_accumulation_steps"},
    {"training.steps", "max_steps num_steps train_iters max_iters"},
    {"training.epochs", "num_train_epochs train_epochs"},
    {"training.max_norm", "max_grad_norm gradient_clipping clip_grad grad_clip"},
    {"training.mixed_precision_param", "bf16 fp16 precision"},
    {"parallelism.data_parallel_shard_degree", "dp"},
    {"parallelism.tensor_parallel_degree", "tp tensor_model_parallel_size model_parallel_size"},
    {"parallelism.pipeline_parallel_degree", "pp pipeline_model_parallel_size pipe_parallel_size"},
    {"parallelism.context_parallel_degree", "cp context_parallel_size"},
    {"parallelism.expert_parallel_degree", "ep expert_model_parallel_size moe_expert_parallel_size"},
    {"model.score_func", "scoring_func moe_router_score_function"},
    {"model.expert_bias", "moe_router_enable_expert_bias"},
    {"model.load_balance_coeff", "moe_router_bias_update_rate"},
    {"model.num_shared_experts", "n_shared_experts"},
    {"model.num_expert_groups", "n_group moe_router_num_groups"},
    {"model.num_limited_groups", "topk_group moe_router_group_topk"},
    {"model.route_scale", "routed_scaling_factor moe_router_topk_scaling_factor"},
    {"parallelism.zero_stage", "zero_optimization use_distributed_optimizer"},
    {"checkpoint.interval", "save_steps save_interval checkpoint_factor"},
    {"checkpoint.keep_latest_k", "save_total_limit keep_last_n_checkpoints"},
    {"checkpoint.keep_best", "load_best_model_at_end"},
    {"checkpoint.initial_load_path", "model_name_or_path init_from"},
    {"validation.freq", "eval_steps eval_interval"},
    {"validation.steps", "eval_iters"},
    {"metrics.log_freq", "logging_steps log_interval"},
    {"data.path", "data_path train_file"},
    {"memory.recompute", "gradient_checkpointing recompute_granularity checkpoint_activations"},
};

}  // namespace

std::vector<FamiliarName> familiar_names() {
  std::vector<FamiliarName> names;
  for (const FamiliarRow& row : kFamiliarNames) {
    for (const std::string& theirs : split(row.theirs, ' ')) names.push_back({theirs, row.ours});
  }
  return names;
}

std::string_view our_name_of(std::string_view key) {
  for (const FamiliarName& name : familiar_names()) {
    if (name.key == key) return name.ours;
  }
  return {};
}

}  // namespace hearth::config
