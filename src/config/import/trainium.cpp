// SPDX-License-Identifier: Apache-2.0
// Arcee's script and program for Llama-2-7B on AWS Trainium (tp_zero1_llama2_7b_hf_pretrain.sh and .py of
// arcee-trainium-recipes, 2024, after the example of neuronx-distributed).
#include <fmt/format.h>

#include "base/quantity.h"
#include "config/import/dialects.h"

namespace hearth::config {
namespace {

constexpr std::string_view kTrnZero = "ranks always share the moments, and results are the same";
constexpr std::string_view kTrnFormat = "`hearth convert` reads and writes NxD's checkpoints";

// Options of the program, and the variables of its script, with a $ before their names.
constexpr ImportRule kTrainiumRules[] = {
    read("$GBS $MBS $TOTAL_STEPS $WARMUP_STEPS $LR $SEQ_LEN $TP_DEGREE $USE_MIX_PRECISION"),
    ignore("$USE_ZERO_1", kTrnZero),
    read("$DATA_PATH batch_size grad_accum_usteps max_steps warmup_steps lr seq_len tensor_parallel_size "
         "use_mix_precision"),
    ignore("use_zero_1", kTrnZero),
    read("data_dir steps_this_run"),
    copy("seed", "training.seed"),
    read("selective_checkpoint_enabled"),
    ignore("sequence_parallel_enabled", kWhySequence),
    ignore("model_path", "the model is Llama-2-7B, as in the script's folder"),
    only("num_layers", "-1", "the model is Llama-2-7B: see model.n_layers"),
    copy("checkpoint_freq", "checkpoint.interval"),
    copy("num_kept_checkpoint", "checkpoint.keep_latest_k"),
    copy("logging_interval", "metrics.log_freq"),
    read("checkpoint_dir"),
    ignore("output_dir metrics_file print_grad_norm", kWhyLog),
    read("load_pretrained_checkpoint pretrained_checkpoint_dir"),
    ignore("resume_ckpt loading_step", kWhyResume),
    ignore("separate_qkv qkv_linear kv_replicator", kTrnFormat),
    ignore("use_meta_device_init", kWhyMemory),
    read("launch.program"),
    ignore("launch.*", kWhyLaunch),
};

void import_trainium_batch(Draft& draft) {
  ForeignLayout layout;
  const ForeignKey* tensor = draft.first_of({"tensor_parallel_size", "$TP_DEGREE"});
  layout.tensor = tensor == nullptr ? ForeignDegree{2} : foreign_degree(draft, {tensor->name});
  take_launched_ranks(draft);
  // The program has no option for the global batch: its script divides $GBS by what it takes for the ranks.
  const ForeignKey *micro_key = draft.first_of({"batch_size", "$MBS"}),
                   *global_key = draft.has("grad_accum_usteps") ? nullptr : draft.find("$GBS");
  const auto micro = micro_key == nullptr ? std::optional<int64_t>(8) : draft.whole(micro_key);
  if (!micro) return;
  if (!is_count(*micro)) return draft.refuse(*micro_key, "not a number of sequences");
  if (global_key != nullptr) {
    draft.take("training.global_batch_size", global_key);
    if (!draft.options().layout) return set_layout(draft, layout, 1, nullptr);
  }
  if (!resolve_layout(draft, layout, global_key != nullptr ? "the layout" : "the global batch")) return;
  if (global_key == nullptr) {
    const int64_t accumulated = draft.whole("grad_accum_usteps").value_or(64);
    if (!is_count(accumulated))
      return draft.problem("the number of accumulated micro-batches is out of range", "give a whole number from 1");
    const int64_t real = bounded_product({*micro, accumulated, layout.data()});
    draft.set("training.global_batch_size", real, micro_key,
              fmt::format("{} x {} accumulated x {} data-parallel ranks", *micro, accumulated, layout.data()));
    if (const auto wanted = draft.known_whole("$GBS"); wanted && *wanted != real)
      draft.note(fmt::format("GBS is {}, but {} x {} x {} are {}: the script reckons with another number of ranks.",
                             *wanted, counted(*micro, "sequence"), counted(accumulated, "micro-batch"),
                             counted(layout.data(), "data-parallel rank"), real));
  }
  set_layout(draft, layout, *micro, micro_key);
}

void import_trainium_numbers(Draft& draft) {
  draft.take_or("optimizer.lr", draft.first_of({"lr", "$LR"}), 4e-4, "the program's default");
  draft.set("optimizer.form", "transformers", nullptr, "Transformers' AdamW of 2024");
  draft.set("optimizer.beta2", 0.999, nullptr, "its default");
  draft.set("optimizer.eps", 1e-6, nullptr, "its default");
  draft.set("optimizer.weight_decay", 0.01, nullptr, "in the program");
  draft.set("optimizer.weight_decay_on", "all", nullptr,
            "the program leaves out \"LayerNorm\", which no norm of a Llama is called");
  draft.set("lr_scheduler.rule", "transformers", nullptr, "linear to 0, the formulas of the library");
  draft.take_or("lr_scheduler.warmup_steps", draft.first_of({"warmup_steps", "$WARMUP_STEPS"}), 2000,
                "the program's default");
  const ForeignKey* steps = draft.first_of({"max_steps", "$TOTAL_STEPS"});
  if (steps == nullptr) draft.problem("neither TOTAL_STEPS nor --max_steps is given", "give the number of steps");
  draft.take("training.steps", steps);
  if (const auto last = draft.whole("steps_this_run"); last && *last >= 0)
    draft.note(fmt::format(
        "The program stops at step {} of its schedule (--steps_this_run). Hearth goes on; Ctrl-C saves and stops.",
        *last));
  draft.take_or("training.seq_len", draft.first_of({"seq_len", "$SEQ_LEN"}), 2048, "the program's default");
  draft.set("training.max_norm", 1.0, nullptr, "in the program");

  // use_mix_precision keeps the moments in float32. Without it they are bfloat16, too.
  const ForeignKey* mixed = draft.first_of({"use_mix_precision", "$USE_MIX_PRECISION"});
  const bool float_moments = draft.flag(mixed).value_or(false);
  draft.set("training.dtype", "bfloat16", mixed, "XLA keeps the weights so");
  draft.set("training.mixed_precision_param", "bfloat16", nullptr);
  draft.set("numerics.stochastic_rounding", true, nullptr, "the program turns it on");
  if (!float_moments) draft.set("optimizer.moments_dtype", "bfloat16", mixed);
}

void import_trainium_rest(Draft& draft) {
  draft.set("model.name", "llama2", nullptr, "the model of the script's folder");
  draft.set("model.flavor", "7B", nullptr);
  draft.set("model.vocab_size", 32000, nullptr);
  const ForeignKey* data = draft.first_of({"data_dir", "$DATA_PATH"});
  const auto path = data == nullptr ? std::optional<std::string>("text") : draft.text(data);
  if (path) set_source(draft, -1, *path, data);
  draft.set("data.order", "sequential", nullptr, "the program does not shuffle");
  const bool selective = draft.is_on("selective_checkpoint_enabled");
  draft.set("memory.recompute", selective ? "attention" : "block", draft.find("selective_checkpoint_enabled"),
            selective ? "" : "the program's default");
  if (draft.is_on("load_pretrained_checkpoint")) {
    const std::string folder = draft.text("pretrained_checkpoint_dir").value_or("llama2-7b");
    draft.set("checkpoint.initial_load_path", "checkpoints/" + foreign_name(folder),
              draft.find("pretrained_checkpoint_dir"), "hearth convert --to native, from NxD's checkpoint");
    draft.set("model.rope_pairs", "halves", nullptr, "as Hugging Face's weights have it");
  }
  set_run_folder(draft, "checkpoint_dir");
  draft.assume("checkpoint.interval", 100000, "the program's default");
  draft.assume("checkpoint.keep_latest_k", 1, "the program's default");
  draft.assume("metrics.log_freq", 1, "the program's default");
  draft.assume("training.seed", 12349, "the program's default");
}

void import_trainium_keys(Draft& draft) {
  import_trainium_numbers(draft);
  import_trainium_batch(draft);
  import_trainium_rest(draft);
}

}  // namespace

Dialect trainium() {
  static const std::vector<ImportRule> rules = with_launched_ranks(kTrainiumRules);
  return {"trainium", "Arcee's scripts for Trainium", rules, import_trainium_keys, /*files=*/false, /*commands=*/true};
}

}  // namespace hearth::config
