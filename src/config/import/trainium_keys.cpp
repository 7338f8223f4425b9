// Variables of tp_zero1_llama2_7b_hf_pretrain.sh and options of its .py (arcee-trainium-recipes, 2024, after the
// example of neuronx-distributed). The script's variables have a $ before their names.
#include "config/import/trainium_keys.h"

#include "config/import/dialects.h"

namespace hearth::config {
namespace {

constexpr std::string_view kTrnLaunch =
    "it starts processes: `hearth train RUN.toml` does so with --ranks, srun or mpirun";
constexpr std::string_view kTrnLog = "metrics.jsonl in the run folder has every number of every step";
constexpr std::string_view kTrnZero = "ranks always share the moments, and results are the same";
constexpr std::string_view kTrnFormat = "`hearth convert` reads and writes NxD's checkpoints";

constexpr ImportRule kTrainiumRules[] = {
    read("$GBS"),
    read("$MBS"),
    read("$TOTAL_STEPS"),
    read("$WARMUP_STEPS"),
    read("$LR"),
    read("$SEQ_LEN"),
    read("$TP_DEGREE"),
    read("$USE_MIX_PRECISION"),
    ignore("$USE_ZERO_1", kTrnZero),
    read("$DATA_PATH"),
    read("batch_size"),
    read("grad_accum_usteps"),
    read("max_steps"),
    read("warmup_steps"),
    read("lr"),
    read("seq_len"),
    read("tensor_parallel_size"),
    read("use_mix_precision"),
    ignore("use_zero_1", kTrnZero),
    read("data_dir"),
    read("steps_this_run"),
    copy("seed", "training.seed"),
    read("selective_checkpoint_enabled"),
    ignore("sequence_parallel_enabled", "ranks of tensor parallelism always share the sequence, too"),
    ignore("model_path", "the model is Llama-2-7B, as in the script's folder"),
    only("num_layers", "-1", "the model is Llama-2-7B: see model.n_layers"),
    copy("checkpoint_freq", "checkpoint.interval"),
    copy("num_kept_checkpoint", "checkpoint.keep_latest_k"),
    copy("logging_interval", "metrics.log_freq"),
    read("checkpoint_dir"),
    ignore("output_dir", kTrnLog),
    ignore("metrics_file", kTrnLog),
    ignore("print_grad_norm", kTrnLog),
    read("load_pretrained_checkpoint"),
    read("pretrained_checkpoint_dir"),
    ignore("resume_ckpt", "a run goes on from its newest good checkpoint"),
    ignore("loading_step", "a run goes on from its newest good checkpoint"),
    ignore("separate_qkv", kTrnFormat),
    ignore("qkv_linear", kTrnFormat),
    ignore("kv_replicator", kTrnFormat),
    ignore("use_meta_device_init", "it moves memory and changes no result"),
    read("launch.program"),
    ignore("launch.*", kTrnLaunch),
};

}  // namespace

std::span<const ImportRule> trainium_rules() {
  static const std::vector<ImportRule> all = with_launched_ranks(kTrainiumRules);
  return all;
}

}  // namespace hearth::config
