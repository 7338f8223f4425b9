// SPDX-License-Identifier: Apache-2.0
// Keys of torchtitan, in two kinds of files.
#include "config/import/dialects.h"

namespace hearth::config {
namespace {

constexpr std::string_view kIsPython = "it is about Python";
constexpr std::string_view kTrace = "it is about traces, which change no result";
constexpr std::string_view kDisplay = "it is about what is printed or logged";
constexpr std::string_view kTitanData = "it is about reading the raw data: see `hearth data build`";
constexpr std::string_view kTitanShape = "it follows from the other sizes";
constexpr std::string_view kTitanBiases = "linear layers have no biases, but those of q, k and v";

// TOML files (torchtitan/config/job_config.py, and config_manager.py before it) and those of its forks.
constexpr ImportRule kTorchtitanRules[] = {
    read("job.config_file"),
    ignore("job.print_args job.print_config job.save_config_file job.save_config_folder", kDisplay),
    ignore("job.use_for_integration_test", kIsPython),
    only("job.custom_config_module", "", "modules in Python are not read"),
    same("job.dump_folder job.description"),
    read("profiling.enable_profiling profiling.save_traces_folder profiling.profile_freq profiling.profiler_active "
         "profiling.enable_memory_snapshot profiling.save_memory_snapshot_folder"),
    ignore("profiling.*", kTrace),
    same("metrics.log_freq"),
    read("metrics.enable_tensorboard metrics.save_tb_folder"),
    ignore("metrics.enable_wandb", kWhyWandb),
    ignore("metrics.*", kWhyLog),

    read("model.name model.flavor model.norm_type"),
    same("model.rope_theta model.vocab_size"),
    ignore("model.tokenizer_path model.tokenizer_backend model.hf_assets_path", kWhyTokenizer),
    read("model.converters"),
    ignore("model.print_after_conversion", kDisplay),
    ignore("model.use_flex_attn", kWhyKernels),
    read("model.attn_mask_type model.mask_token"),

    same("optimizer.name optimizer.lr optimizer.beta1 optimizer.beta2 optimizer.eps optimizer.weight_decay"),
    ignore("optimizer.fused optimizer.implementation", kWhyKernels),
    only("optimizer.early_step_in_backward", "false", "the update waits for the norm of all gradients"),

    same("lr_scheduler.warmup_steps lr_scheduler.decay_ratio lr_scheduler.decay_type lr_scheduler.min_lr_factor"),
    copy("lr_scheduler.lr_min", "lr_scheduler.min_lr_factor"),
    read("lr_scheduler.total_steps"),

    read("training.dataset"),
    ignore("training.dataset_path", "it is where the raw data are: give them to `hearth data build`"),
    read("training.batch_size training.local_batch_size"),
    same("training.global_batch_size training.seq_len"),
    read("training.vocab_size training.warmup_steps"),
    same("training.max_norm training.steps training.seed"),
    read("training.shuffle_seed training.n_fixed training.source_dataset"),
    copy("training.token_weights", "training.token_weights", "as a .npy: `hearth data stats --token-weights`"),
    read("training.mlm_probability training.data_parallel_replicate_degree training.data_parallel_shard_degree "
         "training.data_parallel_degree training.data_parallel_type training.tensor_parallel_degree "
         "training.pipeline_parallel_degree training.fsdp_reshard_after_forward"),
    ignore("training.enable_loss_parallel training.disable_loss_parallel",
           "ranks of tensor parallelism always share the vocabulary"),
    read("training.fp8_linear training.enable_fp8_linear training.enable_float8_linear"),
    ignore("training.enable_fsdp_fp8_all_gather training.enable_fsdp_float8_all_gather "
           "training.precompute_float8_dynamic_scale_for_fsdp training.float8_scaling_type_*",
           kWhyFloat8),
    ignore("training.dataloader.*", kWhyThreads),
    only("training.debug_moe_force_load_balance debug.moe_force_load_balance", "false", "experts are chosen by scores"),
    ignore("training.compile", kWhyKernels),
    same("training.dtype training.mixed_precision_param"),
    only("training.mixed_precision_reduce", "float32", "gradients are summed in float32"),
    ignore("training.enable_cpu_offload", kWhyMemory),
    ignore("training.gc_freq training.gc_debug", kIsPython),
    ignore("training.deterministic", kWhySameBits),

    read("parallelism.data_parallel_replicate_degree parallelism.data_parallel_shard_degree "
         "parallelism.tensor_parallel_degree parallelism.pipeline_parallel_degree parallelism.context_parallel_degree "
         "parallelism.fsdp_reshard_after_forward parallelism.pipeline_parallel_schedule "
         "parallelism.pipeline_parallel_microbatch_size parallelism.pipeline_parallel_layers_per_stage "
         "parallelism.pipeline_parallel_first_stage_less_layers parallelism.pipeline_parallel_last_stage_less_layers"),
    ignore("parallelism.context_parallel_rotate_method", kWhyKernels),
    ignore("parallelism.disable_loss_parallel", "ranks of tensor parallelism always share the vocabulary"),
    ignore("parallelism.enable_async_tensor_parallel parallelism.enable_compiled_autograd", kWhyKernels),
    only("parallelism.module_fqns_per_model_part parallelism.pipeline_parallel_split_points", "[]", kWhyStages),
    only("parallelism.pipeline_parallel_schedule_csv", "", "the schedules are those of pipeline_parallel_schedule"),
    ignore("parallelism.pipeline_parallel_microbatches", "it cuts a micro-batch and changes no result"),
    ignore("parallelism.context_parallel_load_balancer", kWhyKernels),
    ignore("parallelism.pipeline_parallel_expert_parallel_overlap parallelism.expert_parallel_comm_backend",
           kWhyTraffic),
    read("parallelism.expert_parallel_degree"),
    only("parallelism.expert_tensor_parallel_degree", "1", "each rank has whole experts"),
    read("experimental.pipeline_parallel_degree experimental.context_parallel_degree"),
    only("experimental.pipeline_parallel_split_points", "[]", kWhyStages),
    read("experimental.pipeline_parallel_schedule"),
    ignore("experimental.pipeline_parallel_microbatches", "it cuts a micro-batch and changes no result"),
    ignore("experimental.pipeline_parallel_split_mode", "it cuts stages in another way and changes no result"),
    only("experimental.pipeline_parallel_schedule_csv", "", "the schedules are those of pipeline_parallel_schedule"),
    ignore("experimental.context_parallel_rotate_method experimental.torch_spmd", kWhyKernels),
    only("experimental.custom_model_path", "", "modules in Python are not read"),
    ignore("experimental.enable_async_tensor_parallel experimental.enable_compiled_autograd", kWhyKernels),
    only("experimental.custom_import experimental.custom_args_module", "", "modules in Python are not read"),

    read("checkpoint.enable_checkpoint checkpoint.enable"),
    same("checkpoint.folder"),
    read("checkpoint.interval checkpoint.interval_type checkpoint.model_weights_only checkpoint.last_save_model_only "
         "checkpoint.last_save_model_weights_only checkpoint.last_save_in_hf "
         "checkpoint.last_save_in_safetensors_format checkpoint.export_dtype checkpoint.async_mode"),
    same("checkpoint.keep_latest_k checkpoint.initial_load_path"),
    read("checkpoint.initial_load_model_only checkpoint.initial_load_model_weights_only"),
    ignore("checkpoint.initial_load_in_hf", "the format of initial_load_path is found from its files"),
    only("checkpoint.initial_load_in_hf_quantized", "false", "quantized weights are not read"),
    read("checkpoint.exclude_from_loading"),
    only("checkpoint.load_step", "-1", kWhyResume),
    ignore("checkpoint.create_seed_checkpoint", "the first weights do not depend on the number of ranks"),
    ignore("checkpoint.enable_ft_dataloader_checkpoints", "it is about torchft"),
    read("checkpoint.enable_first_step_checkpoint"),
    only("checkpoint.load_only", "false", "a run writes checkpoints"),

    read("activation_checkpoint.mode activation_checkpoint.selective_ac_option"),
    ignore("activation_checkpoint.*", "it is about memory and changes no result"),
    ignore("compile.*", kWhyKernels),
    read("float8.enable_float8_linear float8.recipe_name"),
    ignore("float8.*", kWhyFloat8),
    ignore("quantize.* mx.*", "it tunes what model.converters names"),
    same("comm.init_timeout_seconds comm.train_timeout_seconds"),
    only("comm.mode", "default", "ranks really communicate"),
    ignore("comm.*", kTrace),
    ignore("memory_estimation.* estimate.*", "`hearth plan RUN.toml` computes a run's memory"),
    only("fault_tolerance.enable", "false", "a run that was stopped goes on from its newest good checkpoint"),
    ignore("fault_tolerance.*", "it tunes torchft"),
    read("validation.enable validation.enabled"),
    ignore("validation.dataset validation.dataset_path", kWhyValidation),
    ignore("validation.dataloader.*", kWhyThreads),
    ignore("validation.local_batch_size", "it is about memory and changes no result"),
    ignore("validation.seq_len", "training.seq_len holds for validation, too"),
    read("validation.freq validation.steps"),
    copy("debug.seed", "training.seed"),
    ignore("debug.deterministic debug.deterministic_warn_only", kWhySameBits),
    // the command: ./run_train.sh, or torchrun
    read("env.CONFIG_FILE env.NGPU launch.program"),
    ignore("launch.*", kWhyLaunch),
};

// JSON files of torchtitan 0.3 (August 2026): Trainer.Config.to_dict, which --debug.save_config_file writes. The import
// has joined the model's layers, and numbered the datasets (torchtitan_json.cpp).
constexpr ImportRule kTorchtitanJsonRules[] = {
    read("model_spec.name"),
    ignore("model_spec.flavor", "the model's own keys say its shape"),
    copy("model_spec.model.dim", "model.dim"),
    copy("model_spec.model.vocab_size", "model.vocab_size"),
    copy("model_spec.model.enable_weight_tying", "model.enable_weight_tying"),
    only("model_spec.model.lm_head.bias", "false", kTitanBiases),
    ignore("model_spec.model.lm_head.* model_spec.model.tok_embeddings.* model_spec.model.norm.*", kTitanShape),
    copy("model_spec.model.norm.eps", "model.norm_eps"),
    only("model_spec.model.norm.elementwise_affine", "true", "norms have weights"),
    copy("model_spec.model.num_layers", "model.n_layers"),
    read("model_spec.model.layers.0.attention.n_heads model_spec.model.layers.0.attention.n_kv_heads "
         "model_spec.model.layers.0.attention.head_dim"),
    ignore("model_spec.model.layers.0.attention.dim", kTitanShape),
    read("model_spec.model.layers.0.attention.qkv_linear.head_dim"),
    ignore("model_spec.model.layers.0.attention.qkv_linear.n_heads "
           "model_spec.model.layers.0.attention.qkv_linear.wqkv.* model_spec.model.layers.0.attention.qkv_linear.wq.* "
           "model_spec.model.layers.0.attention.qkv_linear.wkv.* model_spec.model.layers.0.attention.wo.* "
           "model_spec.model.layers.0.attention.qk_norm.*",
           kTitanShape),
    read("model_spec.model.layers.0.attention.qkv_linear.n_kv_heads "
         "model_spec.model.layers.0.attention.qkv_linear.wqkv.bias "
         "model_spec.model.layers.0.attention.qkv_linear.wq.bias "
         "model_spec.model.layers.0.attention.qkv_linear.wkv.bias"),
    only("model_spec.model.layers.0.attention.wo.bias", "false", kTitanBiases),
    only("model_spec.model.layers.0.attention.qk_norm", "null", "see model.qk_norm"),
    read("model_spec.model.layers.0.attention.qk_norm.eps "
         "model_spec.model.layers.0.attention.inner_attention.block_size "
         "model_spec.model.layers.0.attention.inner_attention.window_size"),
    ignore("model_spec.model.layers.0.attention.inner_attention.* model_spec.model.layers.0.attention.inner_attention",
           kWhyKernels),
    copy("model_spec.model.layers.0.attention.rope.theta", "model.rope_theta"),
    read("model_spec.model.layers.0.attention.rope.scaling model_spec.model.layers.0.attention.rope.scaling_factor "
         "model_spec.model.layers.0.attention.rope.low_freq_factor "
         "model_spec.model.layers.0.attention.rope.high_freq_factor "
         "model_spec.model.layers.0.attention.rope.original_max_position_embeddings"),
    ignore("model_spec.model.layers.0.attention.rope.dim model_spec.model.layers.0.feed_forward.w1.* "
           "model_spec.model.layers.0.feed_forward.w2.* model_spec.model.layers.0.feed_forward.w3.*",
           kTitanShape),
    ignore("model_spec.model.layers.0.attention.rope.max_context_length", "rotary angles have no largest position"),
    ignore("model_spec.model.layers.0.attention.rope.rope_factor model_spec.model.layers.0.attention.rope.beta_fast "
           "model_spec.model.layers.0.attention.rope.beta_slow "
           "model_spec.model.layers.0.attention.rope.original_seq_len "
           "model_spec.model.layers.0.attention.rope.truncate",
           "it belongs to the scaling yarn"),
    copy("model_spec.model.layers.0.feed_forward.w1.out_features", "model.hidden_dim"),
    only("model_spec.model.layers.0.feed_forward.w1.bias model_spec.model.layers.0.feed_forward.w2.bias "
         "model_spec.model.layers.0.feed_forward.w3.bias",
         "false", kTitanBiases),
    only("model_spec.model.layers.0.moe", "null", kWhyExperts),
    refuse("model_spec.model.layers.0.moe.*", kWhyExperts),
    read("model_spec.model.layers.0.attention_norm.eps model_spec.model.layers.0.ffn_norm.eps"),
    only("model_spec.model.layers.0.attention_norm.elementwise_affine "
         "model_spec.model.layers.0.ffn_norm.elementwise_affine",
         "true", "norms have weights"),
    ignore("model_spec.model.layers.0.attention_norm.normalized_shape "
           "model_spec.model.layers.0.ffn_norm.normalized_shape",
           kTitanShape),

    ignore("hf_assets_path tokenizer tokenizer.*", kWhyTokenizer),
    copy("dump_folder", "job.dump_folder"),
    read("profiler.enable_profiling profiler.save_traces_folder profiler.profile_freq profiler.profiler_active "
         "profiler.enable_memory_snapshot profiler.save_memory_snapshot_folder"),
    ignore("profiler.*", kTrace),
    same("metrics.log_freq"),
    read("metrics.enable_tensorboard metrics.save_tb_folder"),
    ignore("metrics.enable_wandb", kWhyWandb),
    ignore("metrics.*", kWhyLog),
    read("dataloader.source.* dataloader.mixes_documents dataloader.dataset.num_packing_bins dataloader.shuffle"),
    only("dataloader.repeat", "true", "a training goes on with the data's next epoch"),
    ignore("dataloader.*", kTitanData),

    read("optimizer.param_groups.* optimizer.implementation"),
    only("optimizer.optimizer_factory_kwargs_by_name", "null", "the optimizer is AdamW"),
    refuse("optimizer.optimizer_factory_kwargs_by_name.*", "the optimizer is AdamW"),
    same("lr_scheduler.warmup_steps lr_scheduler.decay_ratio lr_scheduler.decay_type lr_scheduler.min_lr_factor"),
    read("lr_scheduler.total_steps training.num_tokens_per_microbatch_per_dp_rank training.num_tokens_per_train_step"),
    copy("training.max_context_length", "training.seq_len"),
    same("training.max_norm training.steps training.dtype training.mixed_precision_param"),
    only("training.mixed_precision_reduce", "float32", "gradients are summed in float32"),
    ignore("training.enable_cpu_offload", kWhyTraffic),
    ignore("training.disable_cuda_graphs", kWhyKernels),
    ignore("training.gc_freq training.gc_debug", kIsPython),

    read("parallelism.data_parallel_replicate_degree parallelism.data_parallel_shard_degree "
         "parallelism.tensor_parallel_degree parallelism.pipeline_parallel_degree parallelism.context_parallel_degree "
         "parallelism.fsdp_reshard_after_forward parallelism.num_pp_microbatches "
         "parallelism.pipeline_parallel_schedule parallelism.pipeline_parallel_layers_per_stage "
         "parallelism.pipeline_parallel_first_stage_less_layers parallelism.pipeline_parallel_last_stage_less_layers"),
    only("parallelism.module_fqns_per_model_part", "[]|null", kWhyStages),
    only("parallelism.pipeline_parallel_schedule_csv", "", "the schedules are those of pipeline_parallel_schedule"),
    only("parallelism.expert_parallel_degree", "1", kWhyNoExperts),
    ignore("parallelism.enable_fsdp_symm_mem", kWhyTraffic),
    ignore("parallelism.enable_sequence_parallel", kWhySequence),
    ignore("parallelism.spmd_backend parallelism.context_parallel_load_balancer "
           "parallelism.context_parallel_ptrr_mask_key",
           kWhyKernels),

    read("checkpoint.enable"),
    same("checkpoint.folder"),
    read("checkpoint.interval checkpoint.last_save_model_only checkpoint.last_save_in_hf checkpoint.export_dtype "
         "checkpoint.async_mode"),
    same("checkpoint.keep_latest_k checkpoint.initial_load_path"),
    read("checkpoint.initial_load_model_only"),
    ignore("checkpoint.initial_load_in_hf", "the format of initial_load_path is found from its files"),
    only("checkpoint.initial_load_in_hf_quantized", "false", "quantized weights are not read"),
    read("checkpoint.exclude_from_loading"),
    only("checkpoint.load_step", "-1", kWhyResume),
    ignore("checkpoint.create_seed_checkpoint", "the first weights do not depend on the number of ranks"),
    read("checkpoint.enable_first_step_checkpoint"),
    only("checkpoint.load_only", "false", "a run writes checkpoints"),
    ignore("activation_checkpoint", "it recomputes nothing"),
    read("activation_checkpoint.force_recompute_mm_shapes_by_fqns activation_checkpoint.memory_budget "
         "activation_checkpoint.preserve_rng_state"),
    ignore("activation_checkpoint.*", kWhyTraffic),
    ignore("compile.*", kWhyKernels),
    same("comm.train_timeout_seconds comm.init_timeout_seconds"),
    only("comm.mode", "default|torchcomms", "ranks really communicate"),
    ignore("comm.*", kTrace),
    read("validator.enable validator.freq validator.steps"),
    ignore("validator.dataloader.*", kWhyValidation),
    copy("debug.seed", "training.seed"),
    ignore("debug.*", kDisplay),
    only("override.imports", "[]", "modules in Python are not read"),
    read("loss.num_chunks"),
    ignore("loss.loss_fn.* loss.global_vocab_size", kTitanShape),
};

}  // namespace

std::span<const ImportRule> torchtitan_rules() {
  static const std::vector<ImportRule> all = with_launched_ranks(kTorchtitanRules);
  return all;
}

std::span<const ImportRule> torchtitan_json_rules() {
  static const std::vector<ImportRule> all = one_by_one(kTorchtitanJsonRules);
  return all;
}

}  // namespace hearth::config
