// SPDX-License-Identifier: Apache-2.0
// Keys of GPT-NeoX main (2026, megatron/neox_arguments) and of its branch of 2023 for Llemma.
#include "config/import/rules.h"

namespace hearth::config {
namespace {

constexpr std::string_view kNeoxOther = "it belongs to another model or task of GPT-NeoX";
constexpr std::string_view kNeoxText = "`hearth generate` and `hearth eval` have options for it";
constexpr std::string_view kNoMup = "rates and deviations of muP are not there";
constexpr std::string_view kOnlyCausal = "only next tokens are learnt, from plain datasets";

constexpr ImportRule kNeoxRules[] = {
    // parallelism
    read("pipe_parallel_size model_parallel_size"),
    ignore("pipe_partition_method", kWhyStages),
    ignore("world_size", "it follows from the launch"),
    ignore("is_pipe_parallel", "it follows from pipe_parallel_size"),
    ignore("sequence_parallel", kWhySequence),
    // model
    copy("num_layers", "model.n_layers"),
    copy("hidden_size", "model.dim"),
    copy("num_attention_heads", "model.n_heads"),
    copy("num_kv_heads", "model.n_kv_heads"),
    read("attention_type"),
    read("intermediate_size mlp_multiple_of expansion_factor mlp_type activation"),
    copy("seq_length", "training.seq_len"),
    only("sliding_window_width", "null", "windows are not imported: set model.sliding_window"),
    ignore("max_position_embeddings", "rotary angles have no largest position"),
    read("norm rms_norm_epsilon layernorm_epsilon"),
    ignore("scalenorm_epsilon", "it belongs to another norm"),
    only("use_qk_layernorm", "false", "heads have no LayerNorm"),
    read("use_bias_in_norms use_bias_in_attn_linear use_bias_in_mlp pos_emb"),
    ignore("rpe_num_buckets rpe_max_distance opt_pos_emb_offset", kNeoxOther),
    only("rotary_pct", "1", "a part is not imported: set model.partial_rotary_factor"),
    copy("rotary_emb_base", "model.rope_theta"),
    ignore("rotary_save_freqs_buffer", "rotary angles follow from model.rope_theta"),
    read("no_weight_tying attention_config"),
    ignore("sparsity_config", kNeoxOther),
    only("num_unique_layers", "null", "each layer has weights of its own"),
    ignore("param_sharing_style", kNeoxOther),
    read("make_vocab_size_divisible_by"),
    copy("padded_vocab_size", "model.vocab_size"),
    only("gpt_j_residual", "false", "attention and feed-forward follow each other"),
    only("gpt_j_tied", "false", "attention and feed-forward have norms of their own"),
    only("output_layer_parallelism", "column", "ranks of tensor parallelism share the vocabulary"),
    only("apply_query_key_layer_scaling", "false", "scores are divided by the root of the head's width alone"),
    read("init_method output_layer_init_method init_method_std"),
    ignore("use_cpu_initialization", "the first weights do not depend on the ranks"),
    only("soft_prompt_tuning", "null|{}", "its parts are read"),
    only("soft_prompt_tuning.enabled", "false", "a training changes every weight, and there is no prompt to learn"),
    ignore("soft_prompt_tuning.* gmlp_attn_dim dim_att head_size ffn_dim", kNeoxOther),
    ignore("use_flashattn_swiglu scaled_upper_triang_masked_softmax_fusion scaled_masked_softmax_fusion "
           "bias_gelu_fusion bias_dropout_fusion rope_fusion layernorm_fusion rmsnorm_fusion fused_kernels_build_path",
           kWhyKernels),
    ignore("attention_softmax_in_fp32", "it is float32"),
    ignore("fp16_lm_cross_entropy", "the loss is computed in float32"),
    ignore("mamba_selective_scan_fusion mamba_causal_conv_fusion mamba_inner_func_fusion mamba_selective_fp32_params "
           "mamba_use_bias_in_conv mamba_use_bias_in_linears",
           kNeoxOther),
    ignore("te_columnparallel te_rowparallel", kWhyKernels),
    // megatron/model/transformer_engine.py: both layers have biases, whatever the other keys say.
    only("te_layernorm_mlp", "false", "the feed-forward has no biases; Transformer Engine's has, and another width"),
    only("te_mha", "false", "attention has no biases; Transformer Engine's has"),
    only("te_fp8_mha", "false", "attention has no biases, and is not in float8; Transformer Engine's has both"),
    ignore("te_fp8_format te_fp8_wgrad te_fp8_amax_history_len te_fp8_amax_compute_algo te_fp8_margin",
           "it tunes te_fp8_mha"),
    only("hidden_dropout attention_dropout", "0", "there is no dropout"),
    only("moe_num_experts", "1", kWhyExperts),
    ignore("moe_expert_interval moe_top_k moe_router_type moe_lbl_in_fp32 moe_jitter_eps", kWhyNoExperts),
    only("use_mup", "false", kNoMup),
    ignore("coord_check save_base_shapes base_shapes_file mup_init_scale mup_attn_temp mup_output_temp "
           "mup_embedding_mult mup_rp_embedding_mult mup_width_scale",
           kNoMup),
    // optimizer and schedule
    read("optimizer.type optimizer.params.lr optimizer.params.betas"),
    copy("optimizer.params.eps", "optimizer.eps"),
    copy("optimizer.params.weight_decay", "optimizer.weight_decay"),
    ignore("optimizer_type", "optimizer.type says it"),
    read("lr"),
    only("use_bnb_optimizer", "false", "moments have 32 or 16 bits"),
    copy("weight_decay", "optimizer.weight_decay"),
    read("lr_decay_style lr_decay_iters lr_decay_fraction min_lr decay_lr_to warmup warmup_iters"),
    ignore("override_lr_scheduler use_checkpoint_lr_scheduler", "a resumed run obeys its run file"),
    refuse("scheduler.*", "DeepSpeed's schedules are not read", "use lr_decay_style"),
    copy("gradient_clipping", "training.max_norm"),
    copy("clip_grad", "training.max_norm"),
    // batch and length
    read("train_batch_size train_micro_batch_size_per_gpu gradient_accumulation_steps batch_size"),
    copy("train_iters", "training.steps"),
    copy("train_epochs", "training.epochs"),
    ignore("exit_interval", "`hearth train` goes on to training.steps; Ctrl-C saves and stops"),
    ignore("iteration", kWhyResume),
    only("curriculum_learning.enabled", "false", "every step has training.seq_len tokens"),
    ignore("curriculum_learning.* curriculum_seqlen", kNeoxOther),
    // precision
    read("precision"),
    only("fp16.enabled", "false", kWhyNoFloat16),
    ignore("fp16.*", "it scales the loss of float16"),
    read("bf16.enabled"),
    ignore("bf16.*", "bfloat16 needs no scaling"),
    only("amp.enabled", "false", kWhyNoFloat16),
    ignore("fp32_allreduce", "sums over ranks are float32"),
    only("data_types.grad_accum_dtype", "fp32|float32|null", "gradients accumulate in float32"),
    ignore("communication_data_type", "sums over ranks are float32"),
    ignore("hysteresis dynamic_loss_scale loss_scale loss_scale_window min_scale", kNeoxOther),
    ignore("prescale_gradients gradient_predivide_factor", "gradients are averaged in float32"),
    only("sparse_gradients", "false", "gradients are dense"),
    // memory
    read("zero_optimization.stage"),
    ignore("zero_optimization.* zero_stage zero_reduce_scatter zero_contiguous_gradients zero_reduce_bucket_size "
           "zero_allgather_bucket_size",
           kWhyMemory),
    read("checkpoint_activations"),
    ignore("checkpoint_num_layers deepspeed_activation_checkpointing contiguous_checkpointing checkpoint_in_cpu "
           "synchronize_each_layer partition_activations activation_checkpointing.*",
           kWhyMemory),
    ignore("profile_backward", kWhyLog),
    // data
    read("data_path train_data_paths train_data_weights valid_data_paths"),
    ignore("valid_data_weights", "each validation set has a loss of its own"),
    ignore("test_data_paths test_data_weights", "`hearth eval --data` measures them"),
    read("split"),
    only("data_impl", "mmap|infer", "`hearth data build` reads .bin and .idx files"),
    only("pack_impl", "packed", "documents follow each other in windows"),
    only("dataset_impl", "gpt2", kOnlyCausal),
    only("train_impl", "normal", kOnlyCausal),
    only("allow_chopped", "true", "documents are cut at a window's end"),
    refuse("train_label_data_paths", kOnlyCausal, "build the dataset with labels: `hearth data build --labels`"),
    ignore("valid_label_data_paths test_label_data_paths", kOnlyCausal),
    refuse("train_reward_data_paths", kOnlyCausal),
    ignore("valid_reward_data_paths test_reward_data_paths", kOnlyCausal),
    refuse("pos_train_data_paths neg_train_data_paths", kOnlyCausal),
    ignore("pos_train_label_data_paths neg_train_label_data_paths pos_valid_data_paths neg_valid_data_paths "
           "pos_valid_label_data_paths neg_valid_label_data_paths pos_test_data_paths neg_test_data_paths "
           "pos_test_label_data_paths neg_test_label_data_paths",
           kOnlyCausal),
    only("weight_by_num_documents", "false", "weights are those of the file"),
    ignore("weighted_sampler_alpha", "it belongs to weight_by_num_documents"),
    only("eod_mask_loss", "false", "each token counts"),
    copy("seed", "training.seed"),
    ignore("mmap_warmup", kWhyMemory),
    ignore("use_shared_fs", kWhyLaunch),
    ignore("num_workers", kWhyThreads),
    ignore("short_seq_prob", kNeoxOther),
    ignore("tokenizer_type vocab_file merge_file", kWhyTokenizer),
    copy("z_loss", "objective.z_loss"),
    only("data_efficiency.enabled", "false", "every token of the data counts"),
    ignore("data_efficiency.*", kNeoxOther),
    ignore("char_level_ppl", kWhyLog),
    // evaluation and checkpoints
    read("eval_interval eval_iters save load finetune checkpoint_factor checkpoint_scale extra_save_iters"),
    copy("keep_last_n_checkpoints", "checkpoint.keep_latest_k"),
    ignore("checkpoint_validation_with_forward_pass", "checkpoints have checksums and are read back"),
    ignore("config_files", "checkpoints have the resolved configuration"),
    only("no_save_optim", "false", "checkpoints are whole"),
    ignore("no_save_rng", "random numbers are functions of the step"),
    read("no_load_optim"),
    ignore("no_load_rng", "random numbers are functions of the step"),
    ignore("s3_path", "checkpoint.folder may be s3://BUCKET/FOLDER"),
    ignore("s3_chunk_size", kWhyMemory),
    ignore("checkpoint.*", kWhyFormat),
    // logs
    copy("log_interval", "metrics.log_freq"),
    ignore("steps_per_print wall_clock_breakdown", kWhyLog),
    ignore("use_wandb wandb_group wandb_run_name wandb_team wandb_project wandb_host wandb_init_all_ranks wandb.*",
           kWhyWandb),
    ignore("git_hash log_dir", kWhyLog),
    read("tensorboard_dir"),
    ignore("use_comet comet_workspace comet_project comet_experiment_name comet_tags comet_others comet_others.* "
           "comet_experiment peak_theoretical_tflops log_grad_pct_zeros log_param_norm log_grad_norm "
           "log_optimizer_states log_gradient_noise_scale gradient_noise_scale_n_batches "
           "gradient_noise_scale_cpu_offload memory_profiling memory_profiling_path profile profile_step_start "
           "profile_step_stop dump_state flops_profiler.* tensorboard.* csv_monitor.* comms_logger.*",
           kWhyLog),
    // launch
    ignore("distributed_backend local_rank rank lazy_mpu_init deepspeed_mpi deepspeed_slurm user_script do_train "
           "do_valid do_test global_num_gpus hostfile include exclude num_nodes num_gpus master_port master_addr "
           "launcher launch.*",
           kWhyLaunch),
    read("launch.files"),
    ignore("force_multi no_ssh_check comment account", kWhyLaunch),
    ignore("autotuning.* autotuning_run", "`hearth plan --search` finds a layout"),
    ignore("adlr_autoresume adlr_autoresume_interval", kWhyLaunch),
    ignore("onnx_safe deepscale deepscale_config", kNeoxOther),
    ignore("deepspeed", kWhyLaunch),
    refuse("deepspeed_extra_args.*", "further settings of DeepSpeed are not read"),
    ignore("elasticity.*", kWhyLaunch),
    refuse("compression_training.*", "weights are not compressed"),
    refuse("sparse_attention.*", "attention is dense"),
    // other tasks
    ignore("dpo_fp32 dpo_reference_free dpo_beta kto_fp32 kto_desirable_weight kto_undesirable_weight kto_beta "
           "fp32_reinforce kl_impl kl_div_beta reinforce_leave_one_out serve_model_weights weight_server_port "
           "online_dataserver_ips online_dataserver_ports",
           kNeoxOther),
    ignore("text_gen_type precompute_model_name temperature top_p top_k return_logits maximum_tokens prompt_end "
           "sample_input_file sample_output_file num_samples recompute eval_results_prefix eval_tasks",
           kNeoxText),
};

}  // namespace

std::span<const ImportRule> neox_rules() {
  static const std::vector<ImportRule> all = one_by_one(kNeoxRules);
  return all;
}

}  // namespace hearth::config
