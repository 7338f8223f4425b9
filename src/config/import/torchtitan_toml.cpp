// SPDX-License-Identifier: Apache-2.0
// torchtitan's TOML files of 2024 and 2025 (torchtitan/config/job_config.py, and config_manager.py before it), and
// those of its forks for recordings of neurons and for masked language models.
#include <fmt/format.h>

#include <algorithm>
#include <iterator>
#include <set>
#include <string>

#include "base/text.h"
#include "config/families.h"
#include "config/import/dialects.h"
#include "config/import/torchtitan_parts.h"

namespace hearth::config {
namespace {

// The files of frontier-torchtitan and torchtitan-mlm name six sets as "full"; their shares are those of documents.
struct MixedSet {
  std::string_view name;
  double weight;
};
constexpr MixedSet kFullMixture[] = {{"dclm", 0.40}, {"fineweb-edu", 0.44}, {"dolma", 0.03},
                                     {"zyda", 0.02}, {"stack-v2", 0.10},    {"finemath", 0.01}};

TorchtitanAge age_of(const Draft& draft) {
  const ForeignKey* of_2024 = draft.first_of(
      {"training.warmup_steps", "training.data_parallel_degree", "training.data_parallel_shard_degree",
       "training.data_parallel_replicate_degree", "training.tensor_parallel_degree", "checkpoint.interval_type",
       "experimental.pipeline_parallel_degree", "experimental.context_parallel_degree", "float8.enable_float8_linear"});
  if (of_2024 != nullptr && draft.keys_under("lr_scheduler.").empty()) return TorchtitanAge::k2024;
  const ForeignKey* of_spring = draft.first_of(
      {"training.batch_size", "checkpoint.model_weights_only", "model.norm_type", "training.warmup_steps"});
  return of_spring != nullptr ? TorchtitanAge::kSpring2025 : TorchtitanAge::kNow;
}

// The years had four ways to ask for it.
void import_float8(Draft& draft) {
  const auto turn_on = [&draft](std::string_view name) {
    draft.set("numerics.fp8", true, draft.find(name), "each row has a factor of its own");
  };
  for (const std::string& listed : draft.texts("model.converters").value_or(Names{})) {
    for (const std::string& converter : split(listed, ',')) {  // as options write a list
      if (converter.find("float8") == std::string::npos)
        draft.refuse("model.converters", fmt::format("Hearth has no {}", converter));
      else
        turn_on("model.converters");
    }
  }
  for (const std::string_view old :
       {"float8.enable_float8_linear", "training.enable_float8_linear", "training.enable_fp8_linear"})
    if (draft.is_on(old)) turn_on(old);
  if (const auto kind = draft.text("training.fp8_linear");
      kind && !kind->empty() && !draft.text_is("training.fp8_linear", "false"))
    turn_on("training.fp8_linear");
  if (!draft.is_set("numerics.fp8")) return;
  draft.set("training.device", "cuda", nullptr, "float8 needs a GPU");
  // A table within a table is not read: the default then stays, whatever [quantize.linear.float8] says.
  if (draft.has("quantize.linear")) return;
  // Its other recipes multiply all three products in float8, as its default does.
  const ForeignKey* recipe = draft.find("float8.recipe_name");
  draft.set("numerics.fp8_recipe",
            draft.text(recipe).value_or("") == "rowwise_with_gw_hp" ? "rowwise_hp_wgrad" : "rowwise", recipe);
}

// What torchtitan's flavors of Qwen3 with experts have besides Hearth's (torchtitan/models/qwen3, models/moe).
void import_experts(Draft& draft, std::string_view shape, const ForeignKey* flavor) {
  draft.set("model.expert_bias", true, flavor, "torchtitan balances experts by it");
  draft.set("model.load_balance_coeff", 1e-3, flavor, "torchtitan's default");
  if (shape == "235B-A22B" && !draft.has("model.rope_theta"))
    draft.set("model.rope_theta", 5e6, flavor, "of torchtitan's flavor");
}

void import_expert_ranks(Draft& draft) {
  const ForeignKey* degree = draft.find("parallelism.expert_parallel_degree");
  if (draft.whole(degree).value_or(1) == 1) return;
  if (!draft.is_set("model.expert_bias")) return draft.refuse(*degree, kWhyNoExperts);
  if (draft.options().layout) draft.take("parallelism.expert_parallel_degree", degree);
}

void import_model(Draft& draft) {
  const ForeignKey *name = draft.find("model.name"), *flavor = draft.find("model.flavor");
  std::string family = draft.text(name).value_or("llama3");
  std::string shape = draft.text(flavor).value_or("debugmodel");
  bool documents = draft.text("model.attn_mask_type").value_or("causal") == "block_causal";
  for (const std::string_view end : {"_flex_attn", "_varlen_attn", "_flex", "_varlen"}) {
    if (!shape.ends_with(end)) continue;
    shape.erase(shape.size() - end.size());
    documents = true;
  }
  const bool has_experts = family == "qwen3" && find_flavor("qwen3_moe", shape) != nullptr;
  if (has_experts) family = "qwen3_moe";
  if (find_flavor(family, shape) == nullptr) {
    const std::string all = flavor_names(family);
    const std::string why = all.empty() ? fmt::format("Hearth has no family {}", family)
                                        : fmt::format("{} has the flavors {}", family, all);
    if (flavor != nullptr || name != nullptr)
      draft.refuse(flavor != nullptr ? *flavor : *name, why, "write the keys of [model] by hand");
    return;
  }
  draft.set("model.name", family, name, name == nullptr ? "torchtitan's default" : "");
  draft.set("model.flavor", shape, flavor,
            flavor == nullptr       ? "torchtitan's default; its shape changed over the years"
            : shape == "debugmodel" ? "its shape changed over the years"
                                    : "");
  if (has_experts) import_experts(draft, shape, flavor);
  if (documents)
    draft.set("model.attention_scope", "document",
              draft.has("model.attn_mask_type") ? draft.find("model.attn_mask_type") : flavor,
              "every document attends to itself alone");
  if (auto norm = draft.text("model.norm_type")) {
    const bool fused = *norm == "fused_rmsnorm" || *norm == "compiled_rmsnorm";
    draft.set("model.norm_type", fused ? "rmsnorm" : *norm, draft.find("model.norm_type"),
              fused ? "the same norm" : "");
  }
  import_float8(draft);
}

void import_objective(Draft& draft) {
  const ForeignKey *share = draft.find("training.mlm_probability"), *mask = draft.find("model.mask_token"),
                   *vocabulary = draft.find("training.vocab_size");
  if (share != nullptr || mask != nullptr) {
    draft.set("objective.kind", "masked_lm", share != nullptr ? share : mask);
    draft.take("objective.mlm_probability", share);
    draft.take("objective.mask_token", mask);
    draft.note(
        "The fork also hides special tokens and may leave a window without a hidden token: "
        "objective.mask_special_tokens = true and objective.at_least_one_mask = false repeat that.");
  } else if (draft.whole(vocabulary)) {
    draft.set("objective.kind", "spike_lm", vocabulary, "the forks that have this key train on recordings");
  }
  draft.take("model.vocab_size", vocabulary);
  if (draft.is_set("objective.kind"))
    draft.note("The fork's loss is the mean of its ranks' means: numerics.loss_average = \"per_rank\" repeats that.");
}

void import_data(Draft& draft) {
  const ForeignKey* from = draft.find("training.dataset");
  const std::string name = draft.text(from).value_or("c4_test");
  if (name == "full") {
    draft.set("data.weight_unit", "documents", from, "the shares of its six sets are of rows");
    for (size_t i = 0; i < std::size(kFullMixture); ++i) {
      set_source(draft, static_cast<int64_t>(i), std::string(kFullMixture[i].name), from);
      draft.set(fmt::format("data.source.{}.weight", i), kFullMixture[i].weight, from);
    }
  } else {
    const std::string source = draft.text("training.source_dataset").value_or("all");
    set_source(draft, -1, source == "all" ? name : fmt::format("{}-{}", name, source), from);
  }
  std::string build;
  if (const auto neurons = draft.whole("training.n_fixed")) build += fmt::format(" --n-fixed {}", *neurons);
  if (const auto source = draft.text("training.source_dataset"); source && *source != "all")
    build += fmt::format(" --source-dataset {}", *source);
  if (!build.empty()) draft.note(fmt::format("The dataset is to be built with{}.", build));
  const auto order = draft.whole("training.shuffle_seed");
  const auto* seed = draft.value<int64_t>("training.seed");
  if (order && seed == nullptr)
    draft.take("training.seed", "training.shuffle_seed", "it orders the data, too");
  else if (order && *order != *seed)
    draft.note(fmt::format("training.shuffle_seed = {} is left out: training.seed orders the data, too.", *order));
}

// torchtitan cuts a warm-up that is longer than the training, with a warning.
void cut_warmup(Draft& draft) {
  const auto *warmup = draft.value<int64_t>("lr_scheduler.warmup_steps"),
             *steps = draft.value<int64_t>("training.steps");
  const int64_t most = steps == nullptr ? 10000 : *steps;
  if (warmup == nullptr || *warmup <= most) return;
  draft.set("lr_scheduler.warmup_steps", most, draft.find("lr_scheduler.warmup_steps"),
            "torchtitan cuts it to training.steps");
}

// The files until March 2025 have the warm-up in [training].
void import_schedule(Draft& draft, TorchtitanAge age) {
  draft.take("lr_scheduler.warmup_steps", "training.warmup_steps");
  if (age == TorchtitanAge::k2024)
    draft.set("lr_scheduler.rule", "torchtitan_2024", nullptr, "by its keys the file is older than March 2025");
  if (age == TorchtitanAge::kSpring2025) {
    draft.set("lr_scheduler.rule", "torchtitan_2025", nullptr, "by its keys the file is older than June 2025");
    if (draft.keys_under("lr_scheduler.").empty())
      draft.note(
          "No key shows whether the file is older than March 2025. If it is, write lr_scheduler.rule = "
          "\"torchtitan_2024\", whose decay begins at another rate.");
  }
  if (age == TorchtitanAge::kNow) cut_warmup(draft);
  const auto total = draft.whole("lr_scheduler.total_steps");
  if (total && *total != draft.whole("training.steps").value_or(10000)) refuse_torchtitan_total(draft);
}

// What the command says of ranks, and of the file that has the keys.
void import_command(Draft& draft) {
  // torchtitan's run_train.sh reads these variables, its program does not.
  const std::string program = draft.text("launch.program").value_or("");
  const bool script = program.empty() || program.ends_with(".sh");
  const ForeignKey *ranks = foreign_variable(draft, "NGPU"), *file = draft.find("job.config_file");
  if (script && ranks != nullptr) take_given_ranks(draft, {ranks->name});
  take_launched_ranks(draft);
  if (file == nullptr || !file->from_command) file = script ? foreign_variable(draft, "CONFIG_FILE") : nullptr;
  if (file != nullptr && !draft.has_file(file->value.written()))
    return draft.refuse(*file, "the training's keys are in this file, which is not given",
                        "give it, too: several files are read as one");
  if (program.empty() && file == nullptr) return;
  std::set<std::string> others;  // files that the command does not name
  for (const ForeignKey* key : draft.keys_under(""))
    if (!key->from_command && (file == nullptr || base_name(key->file) != base_name(file->value.written())))
      others.insert(key->file);
  for (const std::string& other : others)
    draft.note(fmt::format("The command does not name {}. Its keys are taken all the same.", other));
  const auto& left_out = draft.options().leave_out;
  const bool is_left_out = std::any_of(left_out.begin(), left_out.end(), [](const std::string& name) {
    return name.ends_with("CONFIG_FILE") || name.ends_with("config_file");
  });
  if (script && file == nullptr && others.empty() && !is_left_out)
    draft.problem(
        fmt::format("{} reads a file of keys even where no CONFIG_FILE is given, and it is not here", program),
        "give the script's own file beside the command");
}

// Names that one setting had over the years, the newest first.
constexpr std::string_view kNamesOfYears[][3] = {
    {"training.local_batch_size", "training.batch_size"},
    {"lr_scheduler.warmup_steps", "training.warmup_steps"},
    {"lr_scheduler.min_lr_factor", "lr_scheduler.lr_min"},
    {"debug.seed", "training.seed"},
    {"checkpoint.enable", "checkpoint.enable_checkpoint"},
    {"checkpoint.last_save_model_only", "checkpoint.last_save_model_weights_only", "checkpoint.model_weights_only"},
    {"checkpoint.last_save_in_hf", "checkpoint.last_save_in_safetensors_format"},
    {"checkpoint.initial_load_model_only", "checkpoint.initial_load_model_weights_only"},
    {"validation.enable", "validation.enabled"},
    {"parallelism.fsdp_reshard_after_forward", "training.fsdp_reshard_after_forward"},
    {"parallelism.data_parallel_replicate_degree", "training.data_parallel_replicate_degree"},
    {"parallelism.data_parallel_shard_degree", "training.data_parallel_shard_degree", "training.data_parallel_degree"},
    {"parallelism.tensor_parallel_degree", "training.tensor_parallel_degree"},
    {"parallelism.pipeline_parallel_degree", "training.pipeline_parallel_degree",
     "experimental.pipeline_parallel_degree"},
    {"parallelism.context_parallel_degree", "experimental.context_parallel_degree"},
    {"parallelism.pipeline_parallel_schedule", "experimental.pipeline_parallel_schedule"},
};

// Only one of the names would count, and which one depends on the year.
void refuse_names_of_years(Draft& draft) {
  for (const auto& names : kNamesOfYears) {
    const ForeignKey* first = nullptr;
    for (const std::string_view name : names) {
      const ForeignKey* key = draft.find(name);
      if (first == nullptr) first = key;
      if (key != nullptr && key->value.text() != first->value.text())
        draft.refuse(*key, fmt::format("{} is given, too: two years' names of one setting", first->name), "keep one");
    }
  }
}

void import_batch(Draft& draft) {
  ForeignLayout layout = torchtitan_layout(draft);
  const ForeignKey* from = draft.first_of({"training.local_batch_size", "training.batch_size"});
  const int64_t local = draft.whole(from).value_or(8);
  const auto* given = draft.value<int64_t>("training.global_batch_size");
  const bool has_global = given != nullptr && *given > 0;
  if (has_global && !draft.options().layout) return set_layout(draft, layout, local, from);
  if (!resolve_layout(draft, layout, has_global ? "the layout" : "the global batch")) return;
  if (!has_global)
    draft.set("training.global_batch_size", bounded_product({local, layout.data()}), from,
              fmt::format("{} x {} data-parallel ranks", local, layout.data()));
  set_torchtitan_layout(draft, layout, local, from);
}

void import_recompute(Draft& draft) {
  const ForeignKey* from = draft.find("activation_checkpoint.mode");
  const std::string mode = draft.text(from).value_or("");
  if (mode.empty()) return;
  if (mode == "full") draft.set("memory.recompute", "block", from);
  if (mode == "none") draft.set("memory.recompute", "none", from);
  if (mode == "memory_budget") draft.set("memory.recompute", "auto", from, "the cheapest that fits");
  if (mode == "selective") {
    const std::string option = draft.text("activation_checkpoint.selective_ac_option").value_or("2");
    draft.set(
        "memory.recompute", "norms", from,
        option == "op" ? "the closest: products are kept" : "the closest to every n-th layer; it changes no result");
  }
  if (!draft.is_set("memory.recompute")) draft.refuse(*from, "not a mode: none, selective, full or memory_budget");
}

void import_validation(Draft& draft) {
  if (!draft.is_on("validation.enable") && !draft.is_on("validation.enabled")) return;
  draft.take("validation.freq", "validation.freq");
  draft.assume("validation.freq", 10, "torchtitan's default");
  draft.take("validation.steps", "validation.steps");
}

void import_torchtitan_keys(Draft& draft) {
  const TorchtitanAge age = age_of(draft);
  refuse_names_of_years(draft);
  import_command(draft);
  import_model(draft);
  import_expert_ranks(draft);
  import_objective(draft);
  import_data(draft);
  import_schedule(draft, age);
  refuse_torchtitan_no_norm(draft);
  import_torchtitan_metrics(draft);
  import_batch(draft);
  import_torchtitan_pipeline(draft);
  import_recompute(draft);
  import_torchtitan_checkpoint(draft, age);
  import_validation(draft);
  import_torchtitan_profiling(draft, "profiling");
  draft.assume("optimizer.weight_decay_on", "all", "torchtitan decays every weight");
  draft.assume("training.mixed_precision_param", "bfloat16", "torchtitan's default");
  draft.assume("training.steps", 10000, "torchtitan's default");
}

}  // namespace

Dialect torchtitan_toml() {
  return {.name = "torchtitan",
          .title = "torchtitan",
          .rules = torchtitan_rules(),
          .import = import_torchtitan_keys,
          .commands = true,
          .core = "training.* model.* optimizer.* lr_scheduler.*",
          .options_win = true};
}

}  // namespace hearth::config
