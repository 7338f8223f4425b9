// SPDX-License-Identifier: Apache-2.0
// Options of Megatron-LM's pretrain_gpt.py (megatron/training/arguments.py, August 2026), with - as _. A row with * is
// for every option that begins so and has no row of its own.
#include "config/import/dialects.h"

namespace hearth::config {
namespace {

constexpr std::string_view kMegatronOther = "it belongs to another model or task of Megatron-LM";
constexpr std::string_view kMegatronFp16 = "it is about float16";
constexpr std::string_view kMegatronData = "`hearth data build` reads the .bin and .idx files";
constexpr std::string_view kMegatronStop = "`hearth train` goes on to training.steps; Ctrl-C saves and stops";
constexpr std::string_view kMegatronMuon = "Muon has its own settings in [optimizer]";
constexpr std::string_view kMegatronAttention = "attention is that of a Llama";
constexpr std::string_view kMegatronHealth = "[numerics] says what happens at a NaN or a spike of the loss";

constexpr ImportRule kMegatronRules[] = {
    // parallelism
    read("tensor_model_parallel_size pipeline_model_parallel_size context_parallel_size "
         "num_layers_per_virtual_pipeline_stage num_virtual_stages_per_pipeline_rank"),
    read("expert_model_parallel_size"),
    ignore("expert_tensor_parallel_size",
           "it changes no result: parallelism.expert_parallel_degree says who has experts"),
    ignore("sequence_parallel", kWhySequence),
    refuse("model_parallel_size", "it is gone from Megatron-LM", "write --tensor-model-parallel-size"),
    refuse("pipeline_model_parallel_layout decoder_first_pipeline_num_layers decoder_last_pipeline_num_layers",
           kWhyStages),
    ignore("pipeline_model_parallel_comm_backend", kWhyLaunch),
    ignore("account_for_*", "see parallelism.pipeline_parallel_first_stage_less_layers and last_stage_less_layers"),
    ignore("tensor_parallel_num_weight_shards", kWhyTraffic),
    ignore("expert_tensor_parallel_num_weight_shards", kWhyNoExperts),
    ignore("hierarchical_context_parallel_sizes", kWhyTraffic),
    only("hybrid_context_parallel", "false", "windows have one length"),
    ignore("max_seqlen_per_dp_cp_rank", kMegatronOther),
    ignore("microbatch_group_size_per_virtual_pipeline_stage", kWhyTraffic),
    ignore("cp_comm_type", kWhyKernels),
    read("use_distributed_optimizer use_megatron_fsdp use_custom_fsdp use_torch_fsdp2 data_parallel_sharding_strategy"),
    only("num_distributed_optimizer_instances", "1", "all data-parallel ranks share the moments"),
    ignore("outer_dp_sharding_strategy enable_full_sharding_in_hsdp", kWhyTraffic),
    // the model
    copy("num_layers", "model.n_layers"),
    copy("encoder_num_layers", "model.n_layers"),
    only("decoder_num_layers", "null", "there is one stack of layers"),
    copy("hidden_size", "model.dim"),
    read("ffn_hidden_size"),
    copy("num_attention_heads", "model.n_heads"),
    copy("kv_channels", "model.head_dim"),
    read("group_query_attention num_query_groups"),
    copy("seq_length", "training.seq_len"),
    copy("encoder_seq_length", "training.seq_len"),
    ignore("decoder_seq_length", kMegatronOther),
    ignore("max_position_embeddings", "rotary angles have no largest position"),
    read("position_embedding_type use_rotary_position_embeddings"),
    ignore("rope_type", "position_embedding_type says it"),
    copy("rotary_base", "model.rope_theta"),
    only("rotary_percent", "1", "a part is not imported: set model.partial_rotary_factor"),
    read("rotary_interleaved"),
    only("rotary_seq_len_interpolation_factor", "null|1",
         "scaling is not imported: set model.rope_type = \"linear\" and model.rope_scaling_factor"),
    read("use_rope_scaling rope_scaling_factor"),
    only("no_rope_freq", "null", "it is not imported: set model.no_rope_layer_interval"),
    ignore("yarn_*", kMegatronOther),
    ignore("no_yarn_*", kMegatronOther),
    ignore("no_position_embedding", "rotary positions have no weights"),
    read("normalization"),
    copy("norm_epsilon", "model.norm_eps"),
    copy("layernorm_epsilon", "model.norm_eps"),
    ignore("apply_layernorm_1p",
           "the norm's weights count from 1 there; they do not decay, so the training is the same"),
    only("apply_residual_connection_post_layernorm", "false", "norms come before attention and feed-forward"),
    read("disable_bias_linear add_qkv_bias swiglu"),
    only("squared_relu openai_gelu quick_geglu", "false", "the feed-forward is SwiGLU"),
    only("glu_linear_offset", "0", "the feed-forward is SwiGLU"),
    only("activation_func_clamp_value", "null", "the feed-forward is not clamped"),
    copy("qk_layernorm", "model.qk_norm"),
    only("qk_l2_norm qk_clip", "false", kMegatronAttention),
    ignore("qk_clip_*", "it belongs to qk_clip"),
    only("attention_output_gate", "false", kMegatronAttention),
    only("softmax_type", "vanilla", kMegatronAttention),
    only("window_size", "null", "windows are not imported: set model.sliding_window"),
    ignore("window_attn_skip_freq", "it belongs to window_size"),
    only("multi_latent_attention", "false", kMegatronAttention),
    only("experimental_attention_variant", "null", kMegatronAttention),
    only("apply_query_key_layer_scaling", "false", "scores are divided by the root of the head's width alone"),
    read("untie_embeddings_and_output_weights hidden_dropout attention_dropout init_method_std"),
    only("embedding_init_method_std", "null", "all matrices begin alike"),
    only("init_method_xavier_uniform", "false", "matrices begin as normal numbers"),
    only("use_mup", "false", "rates and deviations of muP are not there"),
    ignore("mup_*", "it belongs to muP"),
    read("num_experts moe_*"),
    only("mtp_num_layers", "null", "only the next token is predicted"),
    ignore("mtp_*", "it belongs to mtp_num_layers"),
    only("fp32_residual_connection", "false", "the residual stream has the type of the computation"),
    read("make_vocab_size_divisible_by no_pad_vocab_size disable_pad_vocab_size vocab_size"),
    copy("padded_vocab_size", "model.vocab_size"),
    only("spec", "null", "the model is a Llama"),
    only("is_hybrid_model", "false", "the model is a Llama"),
    only("hybrid_layer_pattern hybrid_override_pattern", "null", "the model is a Llama"),
    only("heterogeneous_layers_config_path heterogeneous_layers_config_encoded_json", "null",
         "all layers have one shape"),
    only("enable_mhc_connections", "false", "the model is a Llama"),
    only("linear_attention_freq", "null", kMegatronAttention),
    // optimizer and schedule
    read("optimizer"),
    copy("lr", "optimizer.lr"),
    read("min_lr lr_decay_style lr_decay_iters lr_decay_samples lr_warmup_fraction lr_warmup_iters lr_warmup_samples"),
    only("lr_warmup_init", "0", "the warm-up begins at 0"),
    ignore("lr_wsd_*", "it belongs to the decay style WSD"),
    only("decoupled_lr", "null", "embeddings have the same rate: [[optimizer.group]] can give them another"),
    ignore("decoupled_min_lr", "it belongs to decoupled_lr"),
    copy("weight_decay", "optimizer.weight_decay"),
    only("start_weight_decay end_weight_decay", "null", "the decay does not change"),
    only("weight_decay_incr_style", "constant", "the decay does not change"),
    only("apply_wd_to_qk_layernorm", "false", "norms do not decay"),
    only("no_weight_decay_cond_type", "null", "norms do not decay"),
    copy("clip_grad", "training.max_norm"),
    copy("adam_beta1", "optimizer.beta1"),
    copy("adam_beta2", "optimizer.beta2"),
    copy("adam_eps", "optimizer.eps"),
    ignore("sgd_momentum", "it belongs to another optimizer"),
    ignore("lion_*", "it belongs to another optimizer"),
    ignore("muon_*", kMegatronMuon),
    only("head_lr_mult", "1", "all weights have one rate"),
    ignore("override_opt_param_scheduler use_checkpoint_opt_param_scheduler", "a resumed run obeys its run file"),
    only("freeze_all_layers", "false", "see checkpoint.freeze"),
    // batch and length
    read("micro_batch_size global_batch_size"),
    refuse("warmup", "it is gone from Megatron-LM", "write --lr-warmup-fraction"),
    refuse("batch_size", "it is gone from Megatron-LM", "write --micro-batch-size"),
    only("rampup_batch_size step_batch_size_schedule", "null", "every step has training.global_batch_size sequences"),
    only("decrease_batch_size_if_needed", "false", "every step has training.global_batch_size sequences"),
    read("train_iters train_samples"),
    only("iterations_to_skip", "[]|null", "every step trains"),
    only("skip_train", "false", "a run trains: `hearth eval` measures"),
    ignore("exit_*", kMegatronStop),
    only("calculate_per_token_loss", "true|false", "the loss is the mean over all tokens"),
    // precision and memory
    read("bf16"),
    only("fp16", "false", kWhyNoFloat16),
    read("fp8_format disable_fp8_wgrad no_fp8_wgrad"),
    ignore("fp8_*", kWhyFloat8),
    ignore("no_fp8_*", kWhyFloat8),
    only("fp4_format", "null", "numbers have 8 bits at least"),
    ignore("fp4_*", kWhyFloat8),
    only("first_last_layers_bf16", "false", "with numerics.fp8 every linear layer multiplies in float8"),
    ignore("num_layers_at_*", "it belongs to first_last_layers_bf16"),
    only("exp_avg_dtype", "fp32|bf16", "moments are float32 or bfloat16"),
    read("exp_avg_sq_dtype"),
    only("main_params_dtype", "fp32", "masters are float32"),
    ignore("main_grads_dtype", "gradients are summed in float32"),
    ignore("use_precision_aware_optimizer", "exp_avg_dtype says it"),
    ignore("grad_reduce_in_bf16 accumulate_allreduce_grads_in_fp32", "gradients are summed in float32"),
    ignore("attention_softmax_in_fp32", "it is float32"),
    ignore("fp16_lm_cross_entropy output_logit_dtype", "the loss is computed in float32"),
    ignore("loss_scale* initial_loss_scale min_loss_scale hysteresis", kMegatronFp16),
    read("recompute_granularity recompute_activations checkpoint_activations"),
    ignore("recompute_*", kWhyTraffic),
    // data
    read("data_path train_data_path valid_data_path"),
    ignore("test_data_path", "`hearth eval --data` measures them"),
    read("split mock_data"),
    only("data_args_path per_split_data_args_path", "null", "its file is not read"),
    only("eod_mask_loss", "false", "each token counts"),
    read("reset_attention_mask reset_position_ids"),
    ignore("dataloader_inter_document_masking", "reset_attention_mask says it"),
    only("fim_data", "false", "documents stand in their own order"),
    ignore("fim_*", "it belongs to fim_data"),
    only("sft", "false", "only next tokens are learnt, from plain datasets"),
    ignore("sft_*", "it belongs to sft"),
    only("full_validation", "false", "validation.steps says how much"),
    ignore("dataloader_* data_cache_path", kMegatronData),
    ignore("num_workers", kWhyThreads),
    copy("seed", "training.seed"),
    // checkpoints, validation, log
    read("save load finetune pretrained_checkpoint"),
    copy("save_interval", "checkpoint.interval"),
    copy("persistent_save_interval", "checkpoint.interval"),
    read("save_retain_interval async_save no_load_optim"),
    only("no_save_optim", "false", "checkpoints are whole"),
    only("ckpt_step", "null", kWhyResume),
    ignore("no_save_rng no_load_rng", "random numbers are functions of the step"),
    only("use_checkpoint_args", "false", "the model's shape comes from the options"),
    read("eval_interval eval_iters"),
    only("start_eval_at_iter", "null|0", "validation begins with the training"),
    only("eval_global_batch_size", "null", "validation has the batch of the training"),
    copy("log_interval", "metrics.log_freq"),
    read("tensorboard_dir distributed_timeout_minutes"),
    // other models and tasks: they matter with others of the options alone
    only("perform_rl_step", "false", "there is no RL"),
    only("yaml_cfg", "null", "its file is not read"),
    only("vision_pretraining", "false", "the model reads tokens"),
    only("logits_load_dir", "null", "there is no distillation"),
    ignore("error_injection_* fault_injector_*", "it is a test of the cluster"),
    ignore("check_for_* no_check_for_nan_in_loss_and_grad result_rejected_tracker_filename rerun_mode",
           kMegatronHealth),
    read("launch.program"),
    ignore("launch.*", kWhyLaunch),
    // options that change no result, or that belong to other models and tasks, by their beginnings
    ignore("tp_comm_* no_tp_comm_* disable_tp_comm_* cross_entropy_loss_fusion cross_entropy_fusion_impl "
           "attention_backend flash_attention_version use_flash_attn use_fused_weighted_squared_relu "
           "fused_residual_rmsnorm use_transformer_engine_op_fuser use_kitchen_attention kitchen_attention_backend "
           "use_grouped_gemm_* use_te_activation_func transformer_impl no_masked_softmax_fusion no_bias_* "
           "no_rope_fusion no_persist_layer_norm no_gradient_accumulation_fusion disable_jit_fuser use_mcore_models "
           "enable_cuda_graph cuda_graph_* external_cuda_graph optimizer_cuda_graph batch_invariant_* "
           "deterministic_mode disable_bf16_reduced_precision_matmul symmetric_ar_type te_precision_config_file "
           "enable_experimental no_create_attention_mask_in_dataloader onnx_safe use_legacy_models",
           kWhyKernels),
    ignore("delay_wgrad_compute overlap_* no_overlap_* use_ring_exchange_p2p defer_embedding_wgrad_compute "
           "wgrad_deferral_limit ep_overlap_* cpu_offloading_* distribute_saved_activations fine_grained_* "
           "offload_modules min_offloaded_tensor_size delay_offload_* delta_offload_* activation_offload_fraction "
           "empty_unused_memory_level optimizer_cpu_offload optimizer_offload_fraction "
           "use_torch_optimizer_for_cpu_offload no_pin_* ddp_* no_align_* disable_align_grad_reduce gtp_* "
           "no_use_layer_wise_param_layout use_nccl_ub disable_symmetric_registration fsdp_* megatron_fsdp_* "
           "create_all_gather_group no_gradient_reduce_div_fusion suggested_communication_unit_size "
           "keep_fp8_transpose_cache torch_fsdp2_* reuse_grad_buf_for_mxfp8_param_ag high_priority_* no_clone_* "
           "disable_clone_* init_model_with_meta_device use_cpu_initialization no_initialization mlp_chunks_*",
           kWhyTraffic),
    ignore("distributed_backend distributed_timeout_seconds_after_init local_rank lazy_mpu_init "
           "nccl_communicator_config_path use_tp_pp_dp_mapping disable_gloo_process_groups use_sharp "
           "sharp_enabled_group fake_process_group flight_recorder_* no_flight_recorder_* disable_flight_recorder_* "
           "adlr_autoresume* inprocess_* enable_ft_package calc_ft_timeouts ft_* enable_msc disable_msc "
           "gpu_sniff_test_interval check_weight_hash_across_dp_replicas_interval train_sync_interval manual_gc* "
           "no_manual_gc_eval disable_manual_gc_eval te_rng_tracker inference_rng_tracker data_parallel_random_init",
           "it starts or watches processes: `hearth train RUN.toml` does so with --ranks, srun or mpirun"),
    ignore("profile* use_pytorch_profiler pytorch_profiler_* record_* memory_snapshot_path nvtx_ranges log_* "
           "logging_level timing_* no_log_* disable_log_* tensorboard_* wandb_* no_barrier_with_level_1_timing "
           "no_one_logger one_logger_* app_tag_* otel_* straggler_* disable_straggler_on_startup "
           "run_workload_inspector_server workload_inspector_* config_logger_dir dump_param_to_param_group_map "
           "save_params_interval save_activations_interval save_tokens_per_expert_interval save_wgrads_interval "
           "save_dgrads_interval",
           kWhyLog),
    ignore("ckpt_* no_ckpt_* disable_ckpt_* dist_ckpt_* use_dist_ckpt distrib_optim_* auto_detect_ckpt_format "
           "async_strategy async_ckpt_* use_persistent_ckpt_worker non_persistent_* use_mp_args_from_checkpoint_args "
           "no_use_tokenizer_* disable_use_tokenizer_* no_strict_* disable_strict_* no_save_tokenizer_assets "
           "disable_save_tokenizer_assets replication* verify_integrity override_ckpt_iteration "
           "load_main_params_from_ckpt",
           kWhyFormat),
    ignore("vocab_file merge_file vocab_extra_ids tokenizer_* no_tokenizer_* disable_tokenizer_* tiktoken_* "
           "trust_remote_code null_tokenizer_* chat_template use_gigatoken allow_ambiguous_pad_tokens",
           kWhyTokenizer),
    ignore("no_mmap_bin_files num_dataset_builder_threads object_storage_cache_path mid_level_dataset_surplus "
           "per_dataset_sequences_path phase_transition_iterations multiple_validation_sets validation_set_names "
           "eval_micro_batch_size test_mode",
           kMegatronData),
    ignore("dsa_* no_dsa_* disable_dsa_* linear_* mhc_* mamba_* gdp_* disable_mamba_mem_eff_path mrope_section "
           "relative_attention_* rotary_scaling_factor mscale* cache_mla_latents mla_down_proj_fusion q_lora_rank "
           "kv_lora_rank qk_head_dim qk_pos_emb_head_dim v_head_dim bert_* output_bert_embeddings flash_decode "
           "nccl_all_reduce_for_prefill inference_* no_inference_* decode_only_cuda_graphs enable_chunked_prefill "
           "num_speculative_tokens use_same_sampling_seed_across_dp_ranks use_legacy_static_engine max_tokens_to_oom "
           "rl_* no_rl_* grpo_* langrl_env_config refit_method ict_* biencoder_* titles_data_path query_in_block_prob "
           "use_one_sent_docs evidence_data_path retriever_* block_data_path embedding_path indexer_* num_classes "
           "img_h img_w num_channels patch_dim classes_fraction data_per_class_fraction no_data_sharding vision_* "
           "swin_backbone_type mask_* iter_per_epoch dino_* sample_rate short_seq_prob logits_* "
           "exit_on_missing_checkpoint",
           kMegatronOther),
};

}  // namespace

std::span<const ImportRule> megatron_rules() {
  static const std::vector<ImportRule> all = with_launched_ranks(kMegatronRules);
  return all;
}

}  // namespace hearth::config
