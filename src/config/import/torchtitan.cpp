#include "config/import/torchtitan.h"

namespace hearth::config {
namespace {

// The keys of torchtitan 2024 to 2025 (torchtitan/config/job_config.py, and config_manager.py before it). When Hearth
// gets a key, its row is removed. An empty key means every key of the section without a row of its own.
struct Row {
  std::string_view section, key, advice;
};

constexpr std::string_view kOneWay = "remove it: there is one implementation, and it is always on";
constexpr std::string_view kNoCompiler = "remove it: nothing is compiled while a run starts";
constexpr std::string_view kPrecision =
    "write numerics.fp8 = true, which multiplies the linear layers in float8, each row with a factor of its own";
constexpr std::string_view kBuildData = "remove it: build a dataset with `hearth data build`, and give data.path";
constexpr std::string_view kVocabulary =
    "remove it: ranks of parallelism.tensor_parallel_degree always share the vocabulary";
constexpr std::string_view kEvenStages =
    "remove it: parallelism.pipeline_parallel_layers_per_stage cuts stages between layers, evenly";
constexpr std::string_view kNoExperts = "remove it: the model has no experts";
constexpr std::string_view kFlight =
    "remove it: the ranks of a run always record their last calls: `hearth inspect RUN/flight` shows them";
constexpr std::string_view kJsonl = "remove it: metrics.jsonl in the run folder has every number of every step";
constexpr std::string_view kNoPython = "remove it: no Python runs while Hearth trains";

constexpr Row kRows[] = {
    {"job", "config_file", "remove it: the run file is the argument of `hearth train`"},
    {"job", "use_for_integration_test", kNoPython},
    {"job", "print_args", "remove it: the resolved configuration is always printed"},
    {"job", "print_config", "remove it: the resolved configuration is always printed"},
    {"job", "save_config_file", "remove it: every checkpoint stores the resolved configuration"},
    {"job", "custom_config_module", kNoPython},
    {"metrics", "enable_color_printing", "remove it: the output has no colours"},
    {"metrics", "disable_color_printing", "remove it: the output has no colours"},
    {"metrics", "enable_wandb", "remove it: `scripts/wandb_sync.py RUN --project NAME` sends a run's metrics to W&B"},
    {"metrics", "rank_0_only", kJsonl},
    {"metrics", "save_for_all_ranks", kJsonl},
    {"model", "tokenizer_path", "remove it: the dataset at data.path has its tokenizer"},
    {"model", "tokenizer_backend", "remove it: the dataset at data.path has its tokenizer"},
    {"model", "hf_assets_path", "remove it: the dataset at data.path has its tokenizer"},
    {"model", "converters", "remove it; for float8, write numerics.fp8 = true"},
    {"model", "print_after_conversion", kOneWay},
    {"model", "use_flex_attn", kOneWay},
    {"model", "attn_mask_type", "write model.attention_scope: block_causal is \"document\""},
    {"model", "mask_token", "it is objective.mask_token, with objective.kind = \"masked_lm\""},
    {"optimizer", "fused", kOneWay},
    {"optimizer", "implementation", kOneWay},
    {"optimizer", "early_step_in_backward", "remove it: the update waits for the global gradient norm"},
    {"lr_scheduler", "lr_min", "write lr_scheduler.min_lr_factor, with the same number"},
    {"training", "dataset", kBuildData},
    {"training", "dataset_path", kBuildData},
    {"training", "batch_size", "write training.local_batch_size"},
    {"training", "warmup_steps", "write lr_scheduler.warmup_steps"},
    {"training", "vocab_size", "write model.vocab_size, or leave it to the tokenizer"},
    {"training", "shuffle_seed", "write training.seed: it orders the data, too"},
    {"training", "n_fixed", "remove it: build the dataset with `hearth data build --n-fixed N`"},
    {"training", "source_dataset", "remove it: build the dataset with `hearth data build --source-dataset NAME`"},
    {"training", "mlm_probability", "it is objective.mlm_probability, with objective.kind = \"masked_lm\""},
    {"training", "compile", kNoCompiler},
    {"training", "mixed_precision_reduce", "remove it: gradients are summed in float32"},
    {"training", "enable_cpu_offload", "remove it: a run on a CPU has nothing to offload"},
    {"training", "gc_freq", kNoPython},
    {"training", "gc_debug", kNoPython},
    {"training", "deterministic", "remove it: one machine type and number of threads give the same bits, always"},
    {"training", "enable_loss_parallel", kVocabulary},
    {"training", "data_parallel_replicate_degree", "write parallelism.data_parallel_replicate_degree"},
    {"training", "data_parallel_shard_degree", "write parallelism.data_parallel_shard_degree"},
    {"training", "tensor_parallel_degree", "write parallelism.tensor_parallel_degree"},
    {"parallelism", "enable_compiled_autograd", kNoCompiler},
    {"parallelism", "disable_loss_parallel", kVocabulary},
    {"parallelism", "enable_async_tensor_parallel", "remove it: a product waits for the rows of all ranks"},
    {"parallelism", "fsdp_reshard_after_forward",
     "write parallelism.zero_stage = 3, which gathers weights again for the backward (\"always\"), or 2 (\"never\")"},
    {"parallelism", "context_parallel_rotate_method", kOneWay},
    {"parallelism", "module_fqns_per_model_part", kEvenStages},
    {"parallelism", "pipeline_parallel_split_points", kEvenStages},
    {"parallelism", "pipeline_parallel_schedule_csv", "remove it: parallelism.pipeline_parallel_schedule names one"},
    {"parallelism", "expert_parallel_degree", kNoExperts},
    {"parallelism", "expert_tensor_parallel_degree", kNoExperts},
    {"checkpoint", "enable", "remove it: checkpoints are always written; checkpoint.interval says when"},
    {"checkpoint", "enable_checkpoint", "remove it: checkpoints are always written; checkpoint.interval says when"},
    {"checkpoint", "interval_type", "remove it: checkpoint.interval counts steps, checkpoint.interval_seconds seconds"},
    {"checkpoint", "model_weights_only", "write checkpoint.last_save_model_only"},
    {"checkpoint", "load_step",
     "remove it: a run goes on from its newest good checkpoint; to start from another, give "
     "checkpoint.initial_load_path"},
    {"checkpoint", "create_seed_checkpoint", "remove it: the first weights do not depend on the number of ranks"},
    {"checkpoint", "initial_load_in_hf",
     "remove it: the format of checkpoint.initial_load_path is found from its files"},
    {"validation", "enable", "remove it: validation.freq says how often; 0 means never"},
    {"validation", "enabled", "remove it: validation.freq says how often; 0 means never"},
    {"validation", "dataset", "remove it: `hearth data build --validation FRACTION` holds documents out"},
    {"validation", "dataset_path", "remove it: `hearth data build --validation FRACTION` holds documents out"},
    {"validation", "local_batch_size", "remove it: training.local_batch_size holds for validation, too"},
    {"validation", "seq_len", "remove it: training.seq_len holds for validation, too"},
    {"comm", "trace_buf_size", kFlight},
    {"profiling", "profiler_warmup", "remove it: a trace needs no steps before it"},
    {"comm", "save_traces_folder", kFlight},
    {"comm", "save_traces_file_prefix", kFlight},
    {"activation_checkpoint", "",
     "write memory.recompute: \"block\" is mode full, \"norms\" and \"attention\" recompute less, \"auto\" takes the "
     "cheapest that fits"},
    {"compile", "", kNoCompiler},
    {"float8", "", kPrecision},
    {"mx", "", kPrecision},
    {"quantize", "", kPrecision},
    {"memory_estimation", "",
     "remove it: `hearth plan RUN.toml` estimates a run's memory, and metrics.jsonl has the measured memory"},
    {"fault_tolerance", "", "remove it: a run that was stopped goes on from its newest good checkpoint"},
    {"debug", "", "remove it: training.seed is the seed, and results always have the same bits"},
    {"experimental", "custom_import", kNoPython},
    {"experimental", "custom_args_module", kNoPython},
    {"experimental", "context_parallel_degree", "write parallelism.context_parallel_degree"},
    {"experimental", "pipeline_parallel_degree", "write parallelism.pipeline_parallel_degree"},
    {"experimental", "pipeline_parallel_schedule", "write parallelism.pipeline_parallel_schedule"},
    {"experimental", "pipeline_parallel_microbatches", "write parallelism.pipeline_parallel_microbatch_size"},
    {"experimental", "pipeline_parallel_split_points", kEvenStages},
    {"experimental", "", "remove it; the degrees of pipeline and context parallel are keys of [parallelism]"},
};

}  // namespace

std::string_view torchtitan_advice(std::string_view section, std::string_view key) {
  std::string_view advice;
  for (const Row& row : kRows) {
    if (row.section != section) continue;
    if (row.key == key) return row.advice;
    if (row.key.empty()) advice = row.advice;
  }
  return advice;
}

std::string_view torchtitan_value_advice(std::string_view name, std::string_view value) {
  if (name == "model.norm_type" && (value == "fused_rmsnorm" || value == "compiled_rmsnorm"))
    return "write \"rmsnorm\": the same norm, of which there is one implementation";
  if (name == "checkpoint.export_dtype" && value == "float16")
    return "write \"bfloat16\", or \"float32\" and then `hearth convert --to hf --dtype float16`: Hearth's own "
           "checkpoints have no float16";
  if (name == "checkpoint.async_mode" && value == "async_with_pinned_mem")
    return "write \"async\": the copy of a GPU's memory is always pinned";
  if (name == "model.name" && value == "llama")
    return "write \"llama2\" for the shapes of Llama 1 and 2, \"llama3\" for those of Llama 3 (3.1 and 3.2 have their "
           "own)";
  return {};
}

}  // namespace hearth::config
