// SPDX-License-Identifier: Apache-2.0
#include "config/import/torchtitan.h"

#include <fmt/format.h>

#include "base/text.h"

namespace hearth::config {
namespace {

// The keys of torchtitan 2024 to 2025 (torchtitan/config/job_config.py, and config_manager.py before it). When Hearth
// gets a key, its name is removed. "float8." is every key of that section without a row of its own.
struct Row {
  std::string_view names;  // with blanks between them
  std::string_view advice;
};

constexpr Row kRows[] = {
    {"job.config_file", "remove it: the run file is the argument of `hearth train`"},
    {"job.use_for_integration_test job.custom_config_module training.gc_freq training.gc_debug "
     "experimental.custom_import experimental.custom_args_module",
     "remove it: no Python runs while Hearth trains"},
    {"job.print_args job.print_config", "remove it: the resolved configuration is always printed"},
    {"job.save_config_file", "remove it: every checkpoint stores the resolved configuration"},
    {"metrics.enable_color_printing metrics.disable_color_printing", "remove it: the output has no colours"},
    {"metrics.enable_wandb", "remove it: `scripts/wandb_sync.py RUN --project NAME` sends a run's metrics to W&B"},
    {"metrics.rank_0_only metrics.save_for_all_ranks",
     "remove it: metrics.jsonl in the run folder has every number of every step"},
    {"model.tokenizer_path model.tokenizer_backend model.hf_assets_path",
     "remove it: the dataset at data.path has its tokenizer"},
    {"model.converters", "remove it; for float8, write numerics.fp8 = true"},
    {"model.print_after_conversion model.use_flex_attn optimizer.fused optimizer.implementation "
     "parallelism.context_parallel_rotate_method",
     "remove it: there is one implementation, and it is always on"},
    {"model.attn_mask_type", "write model.attention_scope: block_causal is \"document\""},
    {"model.mask_token", "it is objective.mask_token, with objective.kind = \"masked_lm\""},
    {"optimizer.early_step_in_backward", "remove it: the update waits for the global gradient norm"},
    {"lr_scheduler.lr_min", "write lr_scheduler.min_lr_factor, with the same number"},
    {"training.dataset training.dataset_path",
     "remove it: build a dataset with `hearth data build`, and give data.path"},
    {"training.batch_size", "write training.local_batch_size"},
    {"training.warmup_steps", "write lr_scheduler.warmup_steps"},
    {"training.vocab_size", "write model.vocab_size, or leave it to the tokenizer"},
    {"training.shuffle_seed", "write training.seed: it orders the data, too"},
    {"training.n_fixed", "remove it: build the dataset with `hearth data build --n-fixed N`"},
    {"training.source_dataset", "remove it: build the dataset with `hearth data build --source-dataset NAME`"},
    {"training.mlm_probability", "it is objective.mlm_probability, with objective.kind = \"masked_lm\""},
    {"training.compile parallelism.enable_compiled_autograd compile.",
     "remove it: nothing is compiled while a run starts"},
    {"training.mixed_precision_reduce", "remove it: gradients are summed in float32"},
    {"training.enable_cpu_offload", "remove it: a run on a CPU has nothing to offload"},
    {"training.deterministic", "remove it: one machine type and number of threads give the same bits, always"},
    {"training.enable_loss_parallel parallelism.disable_loss_parallel",
     "remove it: ranks of parallelism.tensor_parallel_degree always share the vocabulary"},
    {"training.data_parallel_replicate_degree", "write parallelism.data_parallel_replicate_degree"},
    {"training.data_parallel_shard_degree", "write parallelism.data_parallel_shard_degree"},
    {"training.tensor_parallel_degree", "write parallelism.tensor_parallel_degree"},
    {"parallelism.enable_async_tensor_parallel", "remove it: a product waits for the rows of all ranks"},
    {"parallelism.fsdp_reshard_after_forward",
     "write parallelism.zero_stage = 3, which gathers weights again for the backward (\"always\"), or 2 (\"never\")"},
    {"parallelism.module_fqns_per_model_part parallelism.pipeline_parallel_split_points "
     "experimental.pipeline_parallel_split_points",
     "remove it: parallelism.pipeline_parallel_layers_per_stage cuts stages between layers, evenly"},
    {"parallelism.pipeline_parallel_schedule_csv", "remove it: parallelism.pipeline_parallel_schedule names one"},
    {"parallelism.expert_tensor_parallel_degree",
     "remove it: with parallelism.expert_parallel_degree each rank has whole experts, without it tensor-parallel ranks "
     "share each of them"},
    {"checkpoint.enable checkpoint.enable_checkpoint",
     "remove it: checkpoints are always written; checkpoint.interval says when"},
    {"checkpoint.interval_type", "remove it: checkpoint.interval counts steps, checkpoint.interval_seconds seconds"},
    {"checkpoint.model_weights_only", "write checkpoint.last_save_model_only"},
    {"checkpoint.load_step",
     "remove it: a run goes on from its newest good checkpoint; to start from another, give "
     "checkpoint.initial_load_path"},
    {"checkpoint.create_seed_checkpoint", "remove it: the first weights do not depend on the number of ranks"},
    {"checkpoint.initial_load_in_hf", "remove it: the format of checkpoint.initial_load_path is found from its files"},
    {"validation.enable validation.enabled", "remove it: validation.freq says how often; 0 means never"},
    {"validation.dataset validation.dataset_path",
     "remove it: `hearth data build --validation FRACTION` holds documents out"},
    {"validation.local_batch_size", "remove it: training.local_batch_size holds for validation, too"},
    {"validation.seq_len", "remove it: training.seq_len holds for validation, too"},
    {"comm.trace_buf_size comm.save_traces_folder comm.save_traces_file_prefix",
     "remove it: the ranks of a run always record their last calls: `hearth inspect RUN/flight` shows them"},
    {"profiling.profiler_warmup", "remove it: a trace needs no steps before it"},
    {"activation_checkpoint.",
     "write memory.recompute: \"block\" is mode full, \"norms\" and \"attention\" recompute less, \"auto\" takes the "
     "cheapest that fits"},
    {"float8. mx. quantize.",
     "write numerics.fp8 = true, which multiplies the linear layers in float8, each row with a factor of its own"},
    {"memory_estimation.",
     "remove it: `hearth plan RUN.toml` estimates a run's memory, and metrics.jsonl has the measured memory"},
    {"fault_tolerance.", "remove it: a run that was stopped goes on from its newest good checkpoint"},
    {"debug.", "remove it: training.seed is the seed, and results always have the same bits"},
    {"experimental.context_parallel_degree", "write parallelism.context_parallel_degree"},
    {"experimental.pipeline_parallel_degree", "write parallelism.pipeline_parallel_degree"},
    {"experimental.pipeline_parallel_schedule", "write parallelism.pipeline_parallel_schedule"},
    {"experimental.pipeline_parallel_microbatches", "write parallelism.pipeline_parallel_microbatch_size"},
    {"experimental.", "remove it; the degrees of pipeline and context parallel are keys of [parallelism]"},
};

}  // namespace

std::string_view torchtitan_advice(std::string_view section, std::string_view key) {
  const std::string every = fmt::format("{}.", section), name = every + std::string(key);
  std::string_view advice;
  for (const Row& row : kRows) {
    for (const std::string& one : split(row.names, ' ')) {
      if (one == name) return row.advice;
      if (one == every) advice = row.advice;
    }
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
