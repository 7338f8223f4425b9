// Options of Megatron-LM that change no result, or that belong to other models and tasks, by their beginnings.
#include <algorithm>

#include "config/import/megatron_keys.h"

namespace hearth::config {
namespace {

struct MegatronGroup {
  std::string_view why;
  std::string_view names;  // with blanks between them; with * every option that begins so
};

constexpr MegatronGroup kMegatronGroups[] = {
    {"it chooses between kernels with the same result",
     "tp_comm_* no_tp_comm_* disable_tp_comm_* cross_entropy_loss_fusion cross_entropy_fusion_impl "
     "attention_backend flash_attention_version use_flash_attn use_fused_weighted_squared_relu "
     "fused_residual_rmsnorm use_transformer_engine_op_fuser use_kitchen_attention "
     "kitchen_attention_backend use_grouped_gemm_* use_te_activation_func transformer_impl "
     "no_masked_softmax_fusion no_bias_* no_rope_fusion no_persist_layer_norm "
     "no_gradient_accumulation_fusion disable_jit_fuser use_mcore_models enable_cuda_graph cuda_graph_* "
     "external_cuda_graph optimizer_cuda_graph batch_invariant_* deterministic_mode "
     "disable_bf16_reduced_precision_matmul symmetric_ar_type te_precision_config_file enable_experimental "
     "no_create_attention_mask_in_dataloader disable_fp8_wgrad onnx_safe use_legacy_models"},
    {"it moves memory or traffic and changes no result",
     "delay_wgrad_compute overlap_* no_overlap_* use_ring_exchange_p2p defer_embedding_wgrad_compute "
     "wgrad_deferral_limit ep_overlap_* cpu_offloading_* distribute_saved_activations fine_grained_* "
     "offload_modules min_offloaded_tensor_size delay_offload_* delta_offload_* "
     "activation_offload_fraction empty_unused_memory_level optimizer_cpu_offload "
     "optimizer_offload_fraction use_torch_optimizer_for_cpu_offload no_pin_* ddp_* no_align_* "
     "disable_align_grad_reduce gtp_* no_use_layer_wise_param_layout use_nccl_ub "
     "disable_symmetric_registration fsdp_* megatron_fsdp_* create_all_gather_group "
     "no_gradient_reduce_div_fusion suggested_communication_unit_size keep_fp8_transpose_cache "
     "torch_fsdp2_* reuse_grad_buf_for_mxfp8_param_ag high_priority_* no_clone_* disable_clone_* "
     "init_model_with_meta_device use_cpu_initialization no_initialization mlp_chunks_*"},
    {"it starts or watches processes: `hearth train RUN.toml` does so with --ranks, srun or mpirun",
     "distributed_backend distributed_timeout_seconds_after_init local_rank lazy_mpu_init "
     "nccl_communicator_config_path use_tp_pp_dp_mapping disable_gloo_process_groups use_sharp "
     "sharp_enabled_group fake_process_group flight_recorder_* no_flight_recorder_* "
     "disable_flight_recorder_* adlr_autoresume* inprocess_* enable_ft_package calc_ft_timeouts ft_* "
     "enable_msc disable_msc gpu_sniff_test_interval check_weight_hash_across_dp_replicas_interval "
     "train_sync_interval manual_gc* no_manual_gc_eval disable_manual_gc_eval te_rng_tracker "
     "inference_rng_tracker data_parallel_random_init"},
    {"metrics.jsonl in the run folder has every number of every step",
     "profile* use_pytorch_profiler pytorch_profiler_* record_* memory_snapshot_path nvtx_ranges log_* "
     "logging_level timing_* no_log_* disable_log_* tensorboard_* wandb_* no_barrier_with_level_1_timing "
     "no_one_logger one_logger_* app_tag_* otel_* straggler_* disable_straggler_on_startup "
     "run_workload_inspector_server workload_inspector_* config_logger_dir dump_param_to_param_group_map "
     "save_params_interval save_activations_interval save_tokens_per_expert_interval save_wgrads_interval "
     "save_dgrads_interval"},
    {"checkpoints have one format",
     "ckpt_* no_ckpt_* disable_ckpt_* dist_ckpt_* use_dist_ckpt distrib_optim_* auto_detect_ckpt_format "
     "async_strategy async_ckpt_* use_persistent_ckpt_worker non_persistent_* "
     "use_mp_args_from_checkpoint_args no_use_tokenizer_* disable_use_tokenizer_* no_strict_* "
     "disable_strict_* no_save_tokenizer_assets disable_save_tokenizer_assets replication* "
     "verify_integrity override_ckpt_iteration load_main_params_from_ckpt"},
    {"the dataset brings its tokenizer: `hearth data build --tokenizer FILE`",
     "vocab_file merge_file vocab_extra_ids tokenizer_* no_tokenizer_* disable_tokenizer_* tiktoken_* "
     "trust_remote_code null_tokenizer_* chat_template use_gigatoken "
     "allow_ambiguous_pad_tokens"},
    {"`hearth data build` reads the .bin and .idx files",
     "no_mmap_bin_files num_dataset_builder_threads object_storage_cache_path mid_level_dataset_surplus "
     "per_dataset_sequences_path phase_transition_iterations multiple_validation_sets validation_set_names "
     "eval_micro_batch_size test_mode"},
    {"it belongs to another model or task of Megatron-LM",
     "dsa_* no_dsa_* disable_dsa_* linear_* mhc_* mamba_* gdp_* disable_mamba_mem_eff_path mrope_section "
     "relative_attention_* rotary_scaling_factor mscale* cache_mla_latents mla_down_proj_fusion "
     "q_lora_rank kv_lora_rank qk_head_dim qk_pos_emb_head_dim v_head_dim bert_* output_bert_embeddings "
     "flash_decode nccl_all_reduce_for_prefill inference_* no_inference_* decode_only_cuda_graphs "
     "enable_chunked_prefill num_speculative_tokens use_same_sampling_seed_across_dp_ranks "
     "use_legacy_static_engine max_tokens_to_oom rl_* no_rl_* grpo_* langrl_env_config refit_method ict_* "
     "biencoder_* titles_data_path query_in_block_prob use_one_sent_docs evidence_data_path retriever_* "
     "block_data_path embedding_path indexer_* num_classes img_h img_w num_channels patch_dim "
     "classes_fraction data_per_class_fraction no_data_sharding vision_* swin_backbone_type mask_* "
     "iter_per_epoch dino_* sample_rate short_seq_prob logits_* exit_on_missing_checkpoint"},
};

}  // namespace

std::vector<ImportRule> megatron_ignored() {
  std::vector<ImportRule> rules;
  for (const MegatronGroup& group : kMegatronGroups) {
    for (size_t begin = 0; begin < group.names.size();) {
      const size_t end = std::min(group.names.find(' ', begin), group.names.size());
      rules.push_back(ignore(group.names.substr(begin, end - begin), group.why));
      begin = end + 1;
    }
  }
  return rules;
}

}  // namespace hearth::config
