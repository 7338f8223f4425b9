// Arcee's script and program for Llama-2-7B on AWS Trainium (tp_zero1_llama2_7b_hf_pretrain.sh and .py).
#include <fmt/format.h>

#include "base/quantity.h"
#include "config/import/dialects.h"
#include "config/import/trainium_keys.h"

namespace hearth::config {
namespace {

// The option of the program, or where that is not given, the variable of its script.
const ForeignKey* trainium_key(const Draft& draft, std::string_view option, std::string_view variable) {
  const ForeignKey* given = draft.find(option);
  return given == nullptr ? draft.find(variable) : given;
}

// Sets `key` from it, or from the program's default.
void set_trainium_number(Draft& draft, std::string_view key, std::string_view option, std::string_view variable,
                         int64_t standard) {
  const ForeignKey* from = trainium_key(draft, option, variable);
  const auto value = from == nullptr ? std::optional(standard) : draft.whole(from->name);
  if (value) draft.set(key, *value, from, from == nullptr ? "the program's default" : "");
}

void import_trainium_batch(Draft& draft) {
  ForeignLayout layout;
  const ForeignKey* tensor = trainium_key(draft, "tensor_parallel_size", "$TP_DEGREE");
  layout.tensor = tensor == nullptr ? ForeignDegree{2} : foreign_degree(draft, {tensor->name});
  take_launched_ranks(draft);
  // The program has no option for the global batch: its script divides $GBS by what it takes for the ranks.
  const ForeignKey *micro_key = trainium_key(draft, "batch_size", "$MBS"),
                   *global_key = draft.has("grad_accum_usteps") ? nullptr : draft.find("$GBS");
  const auto micro = micro_key == nullptr ? std::optional<int64_t>(8) : draft.whole(micro_key->name);
  constexpr int64_t kMost = 1 << 20;
  if (!micro) return;
  if (*micro < 1 || *micro > kMost) return draft.refuse(*micro_key, "not a number of sequences");
  if (global_key != nullptr) {
    if (const auto global = draft.whole("$GBS")) draft.set("training.global_batch_size", *global, global_key);
    if (!draft.options().layout) return set_layout(draft, layout, 1, nullptr);
  }
  if (!resolve_layout(draft, layout, global_key != nullptr ? "the layout" : "the global batch")) return;
  if (global_key == nullptr) {
    const int64_t accumulated = draft.whole("grad_accum_usteps").value_or(64);
    if (accumulated < 1 || accumulated > kMost)
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
  const ForeignKey* rate = trainium_key(draft, "lr", "$LR");
  if (const auto lr = rate == nullptr ? std::optional(4e-4) : draft.number(rate->name))
    draft.set("optimizer.lr", *lr, rate, rate == nullptr ? "the program's default" : "");
  draft.set("optimizer.form", std::string("transformers"), nullptr, "Transformers' AdamW of 2024");
  draft.set("optimizer.beta2", 0.999, nullptr, "its default");
  draft.set("optimizer.eps", 1e-6, nullptr, "its default");
  draft.set("optimizer.weight_decay", 0.01, nullptr, "in the program");
  draft.set("optimizer.weight_decay_on", std::string("all"), nullptr,
            "the program leaves out \"LayerNorm\", which no norm of a Llama is called");
  draft.set("lr_scheduler.rule", std::string("transformers"), nullptr, "linear to 0, the formulas of the library");
  set_trainium_number(draft, "lr_scheduler.warmup_steps", "warmup_steps", "$WARMUP_STEPS", 2000);
  const ForeignKey* steps = trainium_key(draft, "max_steps", "$TOTAL_STEPS");
  if (steps == nullptr)
    draft.problem("neither TOTAL_STEPS nor --max_steps is given", "give the number of steps");
  else if (const auto count = draft.whole(steps->name))
    draft.set("training.steps", *count, steps);
  if (const auto last = draft.whole("steps_this_run"); last && *last >= 0)
    draft.note(fmt::format(
        "The program stops at step {} of its schedule (--steps_this_run). Hearth goes on; Ctrl-C saves and stops.",
        *last));
  set_trainium_number(draft, "training.seq_len", "seq_len", "$SEQ_LEN", 2048);
  draft.set("training.max_norm", 1.0, nullptr, "in the program");

  // use_mix_precision keeps the moments in float32. Without it they are bfloat16, too.
  const ForeignKey* mixed = trainium_key(draft, "use_mix_precision", "$USE_MIX_PRECISION");
  const bool float_moments = mixed != nullptr && draft.flag(mixed->name).value_or(false);
  draft.set("training.dtype", std::string("bfloat16"), mixed, "XLA keeps the weights so");
  draft.set("training.mixed_precision_param", std::string("bfloat16"), nullptr);
  draft.set("numerics.stochastic_rounding", true, nullptr, "the program turns it on");
  if (!float_moments) draft.set("optimizer.moments_dtype", std::string("bfloat16"), mixed);
}

void import_trainium_rest(Draft& draft) {
  draft.set("model.name", std::string("llama2"), nullptr, "the model of the script's folder");
  draft.set("model.flavor", std::string("7B"), nullptr);
  draft.set("model.vocab_size", int64_t{32000}, nullptr);
  const ForeignKey* data = trainium_key(draft, "data_dir", "$DATA_PATH");
  const auto path = data == nullptr ? std::optional<std::string>("text") : draft.text(data->name);
  if (path) set_source(draft, -1, *path, data);
  draft.set("data.order", std::string("sequential"), nullptr, "the program does not shuffle");
  const bool selective = draft.flag("selective_checkpoint_enabled").value_or(false);
  draft.set("memory.recompute", std::string(selective ? "attention" : "block"),
            draft.find("selective_checkpoint_enabled"), selective ? "" : "the program's default");
  const ForeignKey* pretrained = draft.find("load_pretrained_checkpoint");
  if (pretrained != nullptr && draft.flag("load_pretrained_checkpoint").value_or(false)) {
    const std::string folder = draft.text("pretrained_checkpoint_dir").value_or("llama2-7b");
    draft.set("checkpoint.initial_load_path", "checkpoints/" + foreign_name(folder),
              draft.find("pretrained_checkpoint_dir"), "hearth convert --to native, from NxD's checkpoint");
    draft.set("model.rope_pairs", std::string("halves"), nullptr, "as Hugging Face's weights have it");
  }
  set_run_folder(draft, "checkpoint_dir");
  draft.assume("checkpoint.interval", int64_t{100000}, "the program's default");
  draft.assume("checkpoint.keep_latest_k", int64_t{1}, "the program's default");
  draft.assume("metrics.log_freq", int64_t{1}, "the program's default");
  draft.assume("training.seed", int64_t{12349}, "the program's default");
}

void import_trainium_keys(Draft& draft) {
  import_trainium_numbers(draft);
  import_trainium_batch(draft);
  import_trainium_rest(draft);
}

}  // namespace

Dialect trainium() {
  return {"trainium",       "Arcee's scripts for Trainium", trainium_rules(), import_trainium_keys, /*files=*/false,
          /*commands=*/true};
}

}  // namespace hearth::config
