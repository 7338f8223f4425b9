// SPDX-License-Identifier: Apache-2.0
// Hugging Face's TrainingArguments, the scripts around them, and accelerate's configuration.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <utility>

#include "base/text.h"
#include "config/families.h"
#include "config/import/dialects.h"
#include "config/import/transformers_parts.h"

namespace hearth::config {
namespace {

HfProgram hf_program(Draft& draft) {
  HfProgram program;
  program.name = draft.text("launch.program").value_or("");
  const bool own_loop = program.name.find("no_trainer") != std::string::npos;
  program.trainer =
      !own_loop && draft.first_of({"num_warmup_steps", "max_train_steps", "checkpointing_steps"}) == nullptr;
  program.frontier = !program.trainer && !own_loop;
  if (program.frontier)
    draft.note(
        fmt::format("{} is read as the train.py of frontier-accelerate: options that are not given have its "
                    "defaults.",
                    program.name.empty() ? "The program" : program.name));
  const bool known = program.name.starts_with("run_clm") || program.name.starts_with("run_mlm");
  if (!program.frontier && !program.name.empty() && !known)
    draft.note(
        fmt::format("{} is read as Transformers' run_clm.py: what its own code does else is not known.", program.name));
  return program;
}

// Options of the Trainer that a program with a loop of its own does not read, where they ask for something.
void refuse_trainer_options(Draft& draft, const HfProgram& program) {
  if (program.trainer) return;
  for (const auto& [name, fix] : {std::pair{"max_steps", "write max_train_steps"},
                                  {"warmup_steps", "write num_warmup_steps"},
                                  {"max_grad_norm", "write training.max_norm in the result"},
                                  {"save_steps", "write checkpointing_steps"},
                                  {"save_strategy", "write checkpointing_steps"},
                                  {"save_total_limit", "write checkpoint.keep_latest_k in the result"}}) {
    const ForeignKey* key = draft.find(name);
    if (key == nullptr || text_or_no(draft, name, "no") == "no") continue;
    if (number_of(key->value).value_or(1) > 0)
      draft.refuse(*key, "it is an option of the Trainer, and this program has a loop of its own", fix);
  }
}

void import_hf_data(Draft& draft, const HfProgram& program) {
  const ForeignKey* from = draft.first_of({"train_file", "dataset_name"});
  if (draft.has("train_file") && draft.has("dataset_name"))
    draft.refuse("train_file", "dataset_name is given, too, and Transformers' scripts read that alone",
                 "keep one of the two");
  refuse_other_number(draft, "block_size", "max_seq_length");
  if (const auto name = draft.text(from)) {
    const auto part = draft.text("dataset_config_name");
    set_source(draft, -1, from->name == "dataset_name" && part ? *part : *name, from);
  } else {
    draft.set("data.path", "data/text", nullptr, "the files do not name it: hearth data build --out data/text");
  }
  if (const auto order = draft.text("train_sampling_strategy")) {
    const ForeignKey* key = draft.find("train_sampling_strategy");
    if (*order == "sequential")
      draft.set("data.order", "sequential", key);
    else if (*order != "random")
      draft.refuse(*key, "windows are shuffled, or in the order of the data");
  }
  const bool script = draft.has("launch.program");
  draft.take_or(
      "training.seq_len", draft.first_of({"block_size", "max_seq_length"}), 1024,
      script ? "the default of Transformers' scripts" : "not in the files: the default of Transformers' scripts");
  const ForeignKey* share = draft.find("mlm_probability");
  const bool masked = program.name.starts_with("run_mlm");
  if (share == nullptr && !masked) return;
  draft.set("objective.kind", "masked_lm", masked ? draft.find("launch.program") : share);
  draft.take_or("objective.mlm_probability", share, 0.15, "the script's default");
  draft.set("objective.mask_replace_prob", 0.8, nullptr, "as Transformers' collator hides tokens");
  draft.set("objective.random_replace_prob", 0.1, nullptr);
}

// The number of steps or epochs.
void import_hf_length(Draft& draft, const HfProgram& program) {
  const std::string_view steps = program.trainer ? "max_steps" : "max_train_steps";
  const auto given = draft.whole(steps);
  if (given && *given > 0) return draft.set("training.steps", *given, draft.find(steps));
  draft.take_or("training.epochs", "num_train_epochs", program.frontier ? 1.0 : 3.0, program.default_of());
}

void import_hf_optimizer(Draft& draft, const HfProgram& program) {
  const std::string name = draft.text("optim").value_or("adamw_torch");
  if (name == "adamw_hf")
    draft.set("optimizer.form", "transformers", draft.find("optim"));
  else if (name != "adamw_torch" && name != "adamw_torch_fused" && name != "adamw_apex_fused" &&
           name != "adamw_torch_xla")
    draft.refuse("optim", "the optimizer is AdamW");
  draft.assume("optimizer.beta2", 0.999, "Transformers' default");
  draft.assume("optimizer.weight_decay", 0.0, "Transformers' default");
  const auto* decay = draft.value<double>("optimizer.weight_decay");
  if (!program.trainer) {
    if (decay != nullptr && *decay != 0)
      draft.set("optimizer.weight_decay_on", "all", nullptr,
                "the script leaves out \"layer_norm.weight\", which no norm of these models is called");
    draft.set("training.max_norm", 0.0, nullptr, "the script does not clip");
  }
  if (!draft.flag("average_tokens_across_devices").value_or(true))
    draft.set("numerics.loss_average", "per_rank", draft.find("average_tokens_across_devices"));
}

void import_hf_precision(Draft& draft) {
  const ForeignKey *from = draft.find("bf16"),
                   *mixed = draft.first_of({"launch.mixed_precision", "mixed_precision"});  // the option wins
  bool bf16 = draft.is_on("bf16");
  // `accelerate launch` gives its processes a variable of its own.
  if (mixed == nullptr && !draft.has("launch.accelerate"))
    mixed = foreign_variable(draft, "ACCELERATE_MIXED_PRECISION");
  const std::string type = mixed == nullptr ? "no" : text_or_no(draft, mixed->name, "no");
  if (!bf16 && type != "no") {
    from = mixed;
    bf16 = type == "bf16";
    if (!bf16) draft.refuse(*from, "numbers are float32 or bfloat16", "bfloat16 takes as much memory as float16");
  }
  if (bf16) draft.set("training.mixed_precision_param", "bfloat16", from);
  for (const std::string_view name : {"dtype", "torch_dtype"}) {
    const std::string type = draft.text(name).value_or("auto");
    if (type == "bfloat16")
      draft.note(
          "The model was loaded in bfloat16. Here it has float32 weights, unless training.dtype = \"bfloat16\".");
    else if (type != "auto" && type != "float32")
      draft.refuse(name, "numbers are float32 or bfloat16");
  }
  for (const std::string_view name :
       {"gradient_checkpointing", "activation_checkpointing", "fsdp_config.activation_checkpointing",
        "fsdp_config.fsdp_activation_checkpointing", "launch.fsdp_activation_checkpointing",
        "env.FSDP_ACTIVATION_CHECKPOINTING", "$FSDP_ACTIVATION_CHECKPOINTING"})
    draft.set_if_on("memory.recompute", "block", name);
}

// What ranks share: FSDP is asked for in four ways, and each has its own words for the strategy.
int64_t hf_zero_stage(Draft& draft) {
  std::string strategy = join(draft.texts("fsdp").value_or(Names{}), " ");
  if (draft.text_is("fsdp", "false")) strategy.clear();
  bool on = !strategy.empty() || draft.flag(foreign_variable(draft, "ACCELERATE_USE_FSDP")).value_or(false) ||
            draft.is_on("launch.use_fsdp") || text_or_no(draft, "distributed_type", "no") == "FSDP";
  for (const std::string_view name :
       {"$FSDP_RESHARD_AFTER_FORWARD", "env.FSDP_RESHARD_AFTER_FORWARD", "$FSDP_SHARDING_STRATEGY",
        "env.FSDP_SHARDING_STRATEGY", "fsdp_config.reshard_after_forward", "fsdp_config.fsdp_sharding_strategy",
        "fsdp_config.fsdp_reshard_after_forward", "launch.fsdp_sharding_strategy", "launch.fsdp_reshard_after_forward"})
    if (const ForeignKey* key = draft.find(name)) strategy = key->value.text();
  on = on || draft.has("launch.fsdp_sharding_strategy");
  if (!on) return 1;
  const std::string plain = lower_plain(strategy);
  const auto says = [&plain](std::string_view part) { return plain.find(part) != std::string::npos; };
  if (says("hybrid") || plain == "4" || plain == "5")
    draft.note(
        "The training shared weights within a node (HYBRID_SHARD). The result shares them among all ranks: with "
        "parallelism.data_parallel_replicate_degree = the number of nodes it does as there.");
  if (says("noshard") || plain == "3") return 1;
  return says("gradop") || says("zero2") || plain == "2" || plain == "5" || plain == "false" ? 2 : 3;
}

// Micro-batches of a step. The Trainer takes num_steps of accelerate's settings, and refuses both.
int64_t hf_accumulated(Draft& draft) {
  constexpr std::string_view kNested = "accelerator_config.gradient_accumulation_kwargs.num_steps";
  const auto own = draft.whole("gradient_accumulation_steps"), nested = draft.whole(kNested);
  if (!nested) return own.value_or(1);
  if (own.value_or(1) > 1)
    draft.refuse(kNested, "gradient_accumulation_steps is given, too: Transformers refuses both", "keep one of them");
  return *nested;
}

// Accelerator() takes the variable in place of its argument. The Trainer counts for itself.
void need_accumulated(Draft& draft, const HfProgram& program, int64_t accumulated) {
  const ForeignKey* key = foreign_variable(draft, "ACCELERATE_GRADIENT_ACCUMULATION_STEPS");
  const auto steps = draft.whole(key);
  if (!steps || *steps == accumulated) return;
  if (program.trainer) return draft.note(fmt::format("{} is not read by the Trainer.", key->assignment()));
  draft.refuse(*key, fmt::format("accelerate takes it in place of the script's {}", accumulated),
               "give both the same number");
}

void import_hf_batch(Draft& draft, const HfProgram& program) {
  ForeignLayout layout;
  take_given_ranks(draft, {"launch.num_processes", "num_processes"});
  take_launched_ranks(draft);
  const ForeignKey* from = draft.find("per_device_train_batch_size");
  if (draft.whole("per_gpu_train_batch_size").value_or(0) != 0) from = draft.find("per_gpu_train_batch_size");  // wins
  const int64_t local = draft.whole(from).value_or(8);
  const int64_t accumulated = hf_accumulated(draft);
  need_accumulated(draft, program, accumulated);
  if (!is_count(local) || !is_count(accumulated))
    return draft.problem("the batch of a rank or the number of accumulated ones is out of range",
                         "give whole numbers from 1");
  if (!resolve_layout(draft, layout, "the global batch")) return;
  layout.zero_stage = hf_zero_stage(draft);
  if (layout.shard.value == 1) layout.zero_stage = 1;
  for (const std::string_view name : {"accelerator_config.split_batches", "split_batches"}) {
    if (!draft.is_on(name)) continue;
    if (local % layout.data() != 0)
      return draft.refuse(name, fmt::format("{} ranks cannot split {} sequences evenly", layout.data(), local),
                          "accelerate refuses it, too");
    draft.set("training.global_batch_size", bounded_product({local, accumulated}), from,
              fmt::format("{} accumulated; the ranks split each batch (split_batches)", accumulated));
    return set_layout(draft, layout, local / layout.data(), draft.find(name));
  }
  draft.set("training.global_batch_size", bounded_product({local, accumulated, layout.data()}), from,
            fmt::format("{} x {} accumulated x {} ranks", local, accumulated, layout.data()));
  set_layout(draft, layout, local, from);
}

// "steps", "epoch" or "no", and the number of steps. A share of all steps becomes a share of the epochs.
void import_hf_checkpoints(Draft& draft, const HfProgram& program) {
  const auto each_epoch = [&draft](const ForeignKey* from, double epochs, std::string note = {}) {
    draft.set("checkpoint.interval", 0, from);
    draft.set("checkpoint.interval_epochs", epochs, from, std::move(note));
  };
  if (!program.trainer) {
    const ForeignKey* from = draft.find("checkpointing_steps");
    if (from == nullptr)
      draft.set("checkpoint.interval", 0, nullptr, "only the end is saved");
    else if (from->value.text() == "epoch")
      each_epoch(from, 1);
    else
      draft.take("checkpoint.interval", from);
    return draft.assume("checkpoint.keep_latest_k", 0, "the script keeps all");
  }
  const ForeignKey *from = draft.find("save_strategy"), *each = draft.find("save_steps");
  const std::string strategy = text_or_no(draft, "save_strategy", "steps");
  const auto steps = draft.number(each);
  const bool is_share = steps && *steps > 0 && *steps < 1;
  const auto* epochs = draft.value<double>("training.epochs");
  const auto* all = draft.value<int64_t>("training.steps");
  if (strategy == "epoch") {
    each_epoch(from, 1);
  } else if (strategy == "no") {
    draft.set("checkpoint.interval", 0, from, "only the end is saved");
  } else if (strategy != "steps") {
    draft.refuse(*from, "checkpoints come after numbers of steps or epochs", "see checkpoint.keep_best");
  } else if (is_share && epochs != nullptr) {
    each_epoch(each, *steps * *epochs, "a share of all epochs");
  } else if (is_share && all != nullptr) {
    const double exact = std::ceil(*steps * static_cast<double>(*all));
    draft.set("checkpoint.interval", static_cast<int64_t>(std::min(exact, 1e15)), each, "a share of all steps");
  } else if (const auto whole = draft.whole(each); whole && *whole < 0) {
    draft.set("checkpoint.interval", 0, each, "only the end is saved");
  } else if (whole) {
    draft.set("checkpoint.interval", *whole, each);
  }
  draft.take("checkpoint.keep_latest_k", "save_total_limit");
  draft.assume("checkpoint.keep_latest_k", 0, "Transformers keeps all by default");
}

void import_hf_metrics(Draft& draft) {
  const ForeignKey* each = draft.find("logging_steps");
  const double logged = draft.number(each).value_or(500);
  if (logged >= 1)
    draft.take("metrics.log_freq", each);
  else if (each != nullptr)
    draft.note(fmt::format("{}: {} is a share of the steps: metrics.log_freq is the usual one.", each->where(),
                           each->assignment()));
  for (const std::string& to : draft.texts("report_to").value_or(Names{})) {
    if (to == "tensorboard" || to == "all") draft.set("metrics.enable_tensorboard", true, draft.find("report_to"));
    if (to == "wandb") draft.note("For W&B, `scripts/wandb_sync.py` sends a run's metrics.");
  }
  const ForeignKey* from = draft.first_of({"eval_strategy", "evaluation_strategy"});
  const std::string strategy = from == nullptr ? "no" : text_or_no(draft, from->name, "no");
  if (strategy == "no") return;
  if (strategy != "steps") return draft.refuse(*from, "validation.freq is a number of steps", "give it in the result");
  const auto steps = draft.number("eval_steps");
  if (steps && *steps != 0) {
    if (*steps < 1) return draft.refuse("eval_steps", "validation.freq is a number of steps");
    draft.take("validation.freq", "eval_steps");
    return;
  }
  // 0, too, stands for logging_steps.
  if (!(logged >= 1 && logged < 1e15))
    return draft.refuse(*each, "it says eval_steps, too, and validation.freq is a number of steps", "give eval_steps");
  draft.set("validation.freq", static_cast<int64_t>(logged), each != nullptr ? each : from, "as logging_steps");
}

void import_transformers_keys(Draft& draft) {
  const HfProgram program = hf_program(draft);
  refuse_trainer_options(draft, program);
  import_hf_model(draft, program);
  import_hf_data(draft, program);
  import_hf_length(draft, program);
  import_hf_schedule(draft, program);
  import_hf_optimizer(draft, program);
  import_hf_precision(draft);
  import_hf_batch(draft, program);
  import_hf_checkpoints(draft, program);
  set_run_folder(draft, "output_dir");
  import_hf_metrics(draft);
  const ForeignKey* launched = draft.find("launch.config_file");
  if (launched != nullptr && !draft.has_file(launched->value.written()))
    draft.refuse(*launched, "accelerate's file says ranks and precision, and is not among the files", "give it, too");
  // The scripts train only if they are told so. A program of its own may train whatever the key says.
  const ForeignKey* trains = draft.find("do_train");
  if (trains != nullptr && trains->from_command && !draft.flag(trains).value_or(true))
    draft.refuse(*trains, "the command trains nothing", "give the command that trains");
  if (!program.trainer) return;
  draft.assume("training.seed", 42, "Transformers' default");
  if (!draft.has("logging_steps")) draft.assume("metrics.log_freq", 500, "Transformers' default");
}

// A norm of null clips nothing in Transformers, and a key that is null would leave Hearth's default.
void write_no_norm(std::vector<ForeignKey>& keys, std::vector<Problem>&) {
  for (ForeignKey& key : keys)
    if (key.name == "max_grad_norm" && key.value.null()) key.value = {0.0};
}

}  // namespace

Dialect transformers() {
  return {.name = "transformers",
          .title = "Transformers",
          .rules = transformers_rules(),
          .import = import_transformers_keys,
          .commands = true,
          .core =
              "learning_rate max_steps num_train_epochs per_device_train_batch_size model_name_or_path "
              "max_train_steps gradient_accumulation_steps per_gpu_train_batch_size do_train config_name "
              "train_file dataset_name block_size lr_scheduler_type warmup_steps warmup_ratio num_warmup_steps "
              "weight_decay mlm_probability",
          .prepare = write_no_norm};
}

}  // namespace hearth::config
