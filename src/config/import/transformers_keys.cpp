// SPDX-License-Identifier: Apache-2.0
// Keys of Transformers 4 and 5.23 (training_args.py), of run_clm.py, run_mlm.py and their versions without Trainer, of
// frontier-accelerate's train.py, and of accelerate 1.15 (its YAML file and `accelerate launch`).
#include "config/import/dialects.h"

namespace hearth::config {
namespace {

constexpr std::string_view kHfHub = "`hearth push` uploads a model";
constexpr std::string_view kHfEval = "`hearth eval` and [validation] have their own ways of it";
constexpr std::string_view kHfData = "it prepares data: see `hearth data build`";
constexpr std::string_view kHfReads = "each rank reads its own part of the batch";
constexpr std::string_view kHfWhole = "every step has the same number of sequences";

constexpr ImportRule kTransformersRules[] = {
    // length, batch and schedule
    read("num_train_epochs max_steps max_train_steps per_device_train_batch_size per_gpu_train_batch_size "
         "gradient_accumulation_steps"),
    copy("learning_rate", "optimizer.lr"),
    read("lr_scheduler_type lr_scheduler_kwargs.num_cycles lr_scheduler_kwargs.power lr_scheduler_kwargs.lr_end "
         "lr_scheduler_kwargs.min_lr lr_scheduler_kwargs.min_lr_rate lr_scheduler_kwargs.num_decay_steps "
         "lr_scheduler_kwargs.num_stable_steps lr_scheduler_kwargs.warmup_type lr_scheduler_kwargs.decay_type "
         "lr_scheduler_kwargs.min_lr_ratio"),
    only("lr_scheduler_kwargs", "null|{}", "its parts are read"),
    read("warmup_steps warmup_ratio num_warmup_steps optim"),
    only("optim_args", "null", "the optimizer has no further settings"),
    only("optim_target_modules", "null", "all weights have one optimizer"),
    only("adafactor", "false", "the optimizer is AdamW"),
    copy("weight_decay", "optimizer.weight_decay"),
    copy("adam_beta1", "optimizer.beta1"),
    copy("adam_beta2", "optimizer.beta2"),
    copy("adam_epsilon", "optimizer.eps"),
    copy("max_grad_norm", "training.max_norm"),
    read("average_tokens_across_devices"),
    only("label_smoothing_factor", "0", "labels are not smoothed"),
    only("neftune_noise_alpha", "null", "embeddings get no noise"),
    only("auto_find_batch_size", "false", "the batch is given"),
    // precision and memory
    read("bf16"),
    only("fp16", "false", kWhyNoFloat16),
    ignore("fp16_*", "it is about float16"),
    ignore("bf16_full_eval", kHfEval),
    ignore("half_precision_backend", kWhyKernels),
    ignore("tf32", "products on a GPU are bfloat16, or whole float32"),
    read("gradient_checkpointing activation_checkpointing"),
    ignore("gradient_checkpointing_kwargs gradient_checkpointing_kwargs.* activation_checkpointing_kwargs "
           "activation_checkpointing_kwargs.*",
           kWhyMemory),
    ignore("torch_compile* torchdynamo use_liger_kernel liger_kernel_config liger_kernel_config.* use_ipex "
           "jit_mode_eval",
           kWhyKernels),
    ignore("use_cache", "it is about generation"),
    ignore("torch_empty_cache_steps low_cpu_mem_usage", kWhyMemory),
    ignore("skip_memory_metrics", kWhyLog),
    ignore("mp_parameters", kWhyLaunch),
    // log, validation, checkpoints
    ignore("logging_strategy logging_* log_*", kWhyLog),
    read("logging_steps"),
    ignore("include_num_input_tokens_seen include_tokens_per_second disable_tqdm", kWhyLog),
    read("report_to"),
    ignore("with_tracking run_name project trackio_*", kWhyLog),
    read("eval_strategy evaluation_strategy eval_steps"),
    only("eval_delay", "0", "validation begins with the training"),
    ignore("eval_* per_device_eval_batch_size per_gpu_eval_batch_size prediction_loss_only use_legacy_prediction_loop "
           "include_for_metrics include_inputs_for_metrics batch_eval_metrics max_eval_samples",
           kHfEval),
    read("save_strategy save_steps save_total_limit"),
    only("save_only_model", "false", "checkpoints are whole, but the last may have the weights alone"),
    ignore("save_safetensors", "`hearth convert --to hf` writes safetensors"),
    ignore("save_on_each_node", "ranks write their parts of one checkpoint"),
    ignore("enable_jit_checkpoint", "a run that is asked to stop saves"),
    only("load_best_model_at_end", "false",
         "the last weights are the result; checkpoint.keep_best = 1 keeps the best ones"),
    ignore("metric_for_best_model greater_is_better", "it belongs to load_best_model_at_end"),
    read("checkpointing_steps output_dir"),
    ignore("overwrite_output_dir resume_from_checkpoint ignore_data_skip restore_callback_states_from_checkpoint",
           kWhyResume),
    ignore("push_to_hub* hub_*", kHfHub),
    // data and its order
    copy("seed", "training.seed"),
    ignore("data_seed", "training.seed orders the data, too"),
    read("train_sampling_strategy"),
    only("group_by_length", "false", kHfWhole),
    ignore("length_column_name dataloader_drop_last", kHfWhole),
    ignore("dataloader_*", kWhyThreads),
    ignore("remove_unused_columns label_names", kHfData),
    ignore("full_determinism", kWhySameBits),
    ignore("past_index", kHfEval),
    // processes
    read("do_train"),
    ignore("do_eval do_predict", kHfEval),
    ignore("local_rank use_cpu no_cuda use_mps_device tpu_* xpu_backend ddp_* ray_scope", kWhyLaunch),
    ignore("debug", kWhyLog),
    only("accelerator_config", "null|{}", "its file is not read: give its keys"),
    read("accelerator_config.split_batches"),
    ignore("accelerator_config.dispatch_batches", kHfReads),
    ignore("accelerator_config.even_batches", kHfWhole),
    ignore("accelerator_config.use_seedable_sampler", "training.seed orders the data"),
    ignore("accelerator_config.non_blocking", kWhyMemory),
    ignore("accelerator_config.use_configured_state", kWhyLaunch),
    only("accelerator_config.gradient_accumulation_kwargs", "null|{}", "its parts are read"),
    read("accelerator_config.gradient_accumulation_kwargs.num_steps"),
    ignore("accelerator_config.gradient_accumulation_kwargs.adjust_scheduler", "the Trainer steps its own schedule"),
    ignore("accelerator_config.gradient_accumulation_kwargs.sync_each_batch", kWhyMemory),
    ignore("accelerator_config.gradient_accumulation_kwargs.sync_with_dataloader",
           "gradients accumulate over micro-batches of one step"),
    read("split_batches"),
    ignore("dispatch_batches", kHfReads),
    only("parallelism_config", "null", "its degrees are not read: see [parallelism]"),
    refuse("parallelism_config.*", "its degrees are not read", "write them in [parallelism] of the result"),
    read("fsdp"),
    only("fsdp_config", "null|{}", "its file is not read: give its keys"),
    read("fsdp_config.activation_checkpointing fsdp_config.reshard_after_forward "
         "fsdp_config.fsdp_activation_checkpointing fsdp_config.fsdp_reshard_after_forward "
         "fsdp_config.fsdp_sharding_strategy"),
    ignore("fsdp_config.fsdp_activation_checkpointing_offload fsdp_config.fsdp_auto_wrap_policy "
           "fsdp_config.fsdp_backward_prefetch fsdp_config.fsdp_backward_prefetch_policy "
           "fsdp_config.fsdp_cpu_ram_efficient_loading fsdp_config.fsdp_forward_prefetch "
           "fsdp_config.fsdp_min_num_params fsdp_config.fsdp_offload_params fsdp_config.fsdp_state_dict_type "
           "fsdp_config.fsdp_sync_module_states fsdp_config.fsdp_transformer_layer_cls_to_wrap "
           "fsdp_config.fsdp_use_orig_params fsdp_config.fsdp_version fsdp_config.auto_wrap_policy "
           "fsdp_config.backward_prefetch fsdp_config.cpu_* fsdp_config.forward_prefetch fsdp_config.limit_all_gathers "
           "fsdp_config.min_num_params fsdp_config.state_dict_type fsdp_config.sync_module_states "
           "fsdp_config.transformer_layer_cls_to_wrap fsdp_config.use_orig_params fsdp_config.version fsdp_config.xla* "
           "fsdp_min_num_params fsdp_transformer_layer_cls_to_wrap",
           kWhyMemory),
    only("deepspeed", "null", "DeepSpeed's own files are not read"),
    refuse("deepspeed.*", "DeepSpeed's own settings are not read"),
    // the scripts for language models
    read("model_name_or_path config_name model_type"),
    only("config_overrides", "null", "the model's shape comes from [model]"),
    ignore("tokenizer_name use_fast_tokenizer use_slow_tokenizer", kWhyTokenizer),
    ignore("cache_dir", kHfData),
    ignore("model_revision", "`hearth fetch` takes a revision"),
    ignore("token use_auth_token", kHfHub),
    ignore("trust_remote_code", "no code of others runs"),
    read("dtype torch_dtype"),
    ignore("attn_implementation", kWhyKernels),
    read("use_pretrained_weights dataset_name dataset_config_name train_file"),
    ignore("validation_file validation_split_percentage", kWhyValidation),
    only("max_train_samples", "null", "every document of the dataset is used"),
    ignore("streaming", kHfData),
    read("block_size max_seq_length"),
    ignore("preprocessing_num_workers overwrite_cache no_keep_linebreaks keep_linebreaks", kHfData),
    read("mlm_probability"),
    only("line_by_line", "false", "documents follow each other in windows"),
    ignore("pad_to_max_length", kHfWhole),
    // accelerate
    read("launch.num_processes launch.mixed_precision launch.use_fsdp launch.fsdp_sharding_strategy "
         "launch.fsdp_reshard_after_forward launch.fsdp_activation_checkpointing"),
    only("launch.use_deepspeed", "false", "DeepSpeed's own files are not read"),
    only("launch.use_megatron_lm", "false", "Megatron's settings are not read from accelerate's options"),
    only("launch.use_parallelism_config", "false", "its degrees are not read: see [parallelism]"),
    refuse("launch.parallelism_config_*", "its degrees are not read", "write them in [parallelism] of the result"),
    refuse("launch.deepspeed_config_file", "DeepSpeed's own files are not read"),
    only("launch.gradient_accumulation_steps", "1", "the script's own option says it"),
    read("launch.accelerate launch.program launch.config_file"),
    ignore("launch.*", kWhyLaunch),
    // variables of accelerate, in front of the command or in lines of their own
    read("env.ACCELERATE_MIXED_PRECISION env.ACCELERATE_GRADIENT_ACCUMULATION_STEPS env.ACCELERATE_USE_FSDP "
         "env.FSDP_SHARDING_STRATEGY env.FSDP_RESHARD_AFTER_FORWARD env.FSDP_ACTIVATION_CHECKPOINTING"),
    ignore("env.FSDP_*", kWhyMemory),
    only("env.ACCELERATE_USE_DEEPSPEED", "false|0", "DeepSpeed's own files are not read"),
    only("env.ACCELERATE_USE_MEGATRON_LM", "false|0", "Megatron's settings are not read from variables"),
    only("env.ACCELERATE_USE_PARALLELISM_CONFIG", "false|0", "its degrees are not read: see [parallelism]"),
    read("num_processes mixed_precision"),
    only("distributed_type", "NO|MULTI_GPU|MULTI_CPU|FSDP|no|false|null",
         "ranks share the data, and with FSDP the weights"),
    only("deepspeed_config", "null", "DeepSpeed's own settings are not read"),
    only("megatron_lm_config", "null", "Megatron's settings are not read from accelerate's file"),
    only("fp8_config", "null", "float8 has its own rules here"),
    refuse("deepspeed_config.*", "DeepSpeed's own settings are not read"),
    refuse("megatron_lm_config.*", "Megatron's settings are not read from accelerate's file"),
    refuse("fp8_config.*", "float8 has its own rules here", "write numerics.fp8 = true in the result"),
    refuse("ipu_config.*", "there are no IPUs"),
    ignore("compute_environment machine_rank main_* num_machines gpu_ids rdzv_backend same_network enable_cpu_affinity "
           "downcast_bf16",
           kWhyLaunch),
    ignore("dynamo_config dynamo_config.* dynamo_backend", kWhyKernels),
    ignore("command_file commands mpirun_config mpirun_config.* ipex_config ipex_config.*", kWhyLaunch),
};

}  // namespace

std::span<const ImportRule> transformers_rules() {
  static const std::vector<ImportRule> all = with_launched_ranks(kTransformersRules);
  return all;
}

}  // namespace hearth::config
