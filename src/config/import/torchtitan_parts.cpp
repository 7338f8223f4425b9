// What torchtitan's TOML files and its JSON files say alike.
#include "config/import/torchtitan_parts.h"

#include <fmt/format.h>

#include <utility>

namespace hearth::config {

ForeignDegree torchtitan_degree(Draft& draft, std::string_view key, bool rest) {
  const std::string now = fmt::format("parallelism.{}", key), before = fmt::format("training.{}", key),
                    once = fmt::format("experimental.{}", key);
  return foreign_degree(draft, {now, before, once}, rest ? 0 : 1, rest);
}

ForeignLayout torchtitan_layout(Draft& draft) {
  ForeignLayout layout;
  layout.replicate = torchtitan_degree(draft, "data_parallel_replicate_degree");
  layout.shard = torchtitan_degree(draft, "data_parallel_shard_degree", true);
  // Until September 2024 there was one degree, of FSDP or of DDP.
  if (draft.has("training.data_parallel_degree") || draft.has("training.data_parallel_type")) {
    const ForeignDegree all = foreign_degree(draft, {"training.data_parallel_degree"}, 0, true);
    const bool ddp = draft.text("training.data_parallel_type").value_or("fsdp") == "ddp";
    if (ddp && all.value > 0) {
      layout.replicate = all;
      layout.shard = {1, all.from};
    } else {
      layout.shard = all;
    }
  }
  layout.context = torchtitan_degree(draft, "context_parallel_degree");
  layout.tensor = torchtitan_degree(draft, "tensor_parallel_degree");
  layout.pipeline = torchtitan_degree(draft, "pipeline_parallel_degree");
  return layout;
}

void set_torchtitan_layout(Draft& draft, ForeignLayout& layout, int64_t local_batch_size, const ForeignKey* from) {
  const std::string_view name = draft.has("parallelism.fsdp_reshard_after_forward") ? "parallelism" : "training";
  const bool never = draft.text(fmt::format("{}.fsdp_reshard_after_forward", name)).value_or("default") == "never";
  layout.zero_stage = layout.shard.value * layout.context.value == 1 ? 1 : never ? 2 : 3;
  set_layout(draft, layout, local_batch_size, from);
}

void import_torchtitan_metrics(Draft& draft) {
  const bool on = draft.flag("metrics.enable_tensorboard").value_or(false);
  auto folder = draft.text("metrics.save_tb_folder");
  if (!on) return;
  draft.set("metrics.enable_tensorboard", true, draft.find("metrics.enable_tensorboard"));
  if (folder) draft.set("metrics.save_tb_folder", std::move(*folder), draft.find("metrics.save_tb_folder"));
}

void import_torchtitan_profiling(Draft& draft, std::string_view section) {
  const auto name = [section](std::string_view key) { return fmt::format("{}.{}", section, key); };
  const auto take = [&](std::string_view key, const auto& value) {
    if (value) draft.set(fmt::format("profiling.{}", key), Value(*value), draft.find(name(key)));
  };
  const auto traces = draft.flag(name("enable_profiling")), memory = draft.flag(name("enable_memory_snapshot"));
  const auto freq = draft.whole(name("profile_freq")), active = draft.whole(name("profiler_active"));
  const auto traces_folder = draft.text(name("save_traces_folder")),
             memory_folder = draft.text(name("save_memory_snapshot_folder"));
  if (traces.value_or(false)) {
    take("enable_profiling", traces);
    take("save_traces_folder", traces_folder);
    take("profiler_active", active);
  }
  if (memory.value_or(false)) {
    take("enable_memory_snapshot", memory);
    take("save_memory_snapshot_folder", memory_folder);
  }
  if (traces.value_or(false) || memory.value_or(false)) take("profile_freq", freq);
}

void import_torchtitan_pipeline(Draft& draft) {
  if (!draft.options().layout || torchtitan_degree(draft, "pipeline_parallel_degree").value == 1) return;
  for (const std::string_view section : {"parallelism", "experimental"}) {
    const ForeignKey* from = draft.find(fmt::format("{}.pipeline_parallel_schedule", section));
    if (from == nullptr) continue;
    std::string schedule = from->value.text();
    if (schedule == "1f1b") schedule = "1F1B";
    if (schedule == "gpipe") schedule = "GPipe";
    if (schedule == "interleaved_1f1b") schedule = "Interleaved1F1B";
    draft.set("parallelism.pipeline_parallel_schedule", schedule, from);
  }
  for (const std::string_view key :
       {"microbatch_size", "layers_per_stage", "first_stage_less_layers", "last_stage_less_layers"}) {
    const std::string name = fmt::format("parallelism.pipeline_parallel_{}", key);
    if (const auto value = draft.whole(name)) draft.set(name, *value, draft.find(name));
  }
}

void import_torchtitan_checkpoint(Draft& draft, TorchtitanAge age) {
  // The first of these names that is given; else the last.
  const auto given = [&draft](std::initializer_list<std::string_view> names) {
    for (const std::string_view name : names)
      if (draft.has(name)) return name;
    return *(names.end() - 1);
  };
  for (const std::string_view name : {"checkpoint.enable", "checkpoint.enable_checkpoint"}) {
    if (draft.flag(name).value_or(true)) continue;
    draft.note(
        "The file turns checkpoints off. Hearth's runs have them: checkpoint.interval = 0 saves at the end alone.");
  }
  const bool seconds = draft.text("checkpoint.interval_type").value_or("steps") == "seconds";
  const ForeignKey* interval = draft.find("checkpoint.interval");
  if (const auto every = draft.number("checkpoint.interval")) {
    if (seconds) {
      draft.set("checkpoint.interval_seconds", *every, interval);
      draft.set("checkpoint.interval", int64_t{0}, draft.find("checkpoint.interval_type"));
    } else if (const auto steps = draft.whole("checkpoint.interval")) {
      draft.set("checkpoint.interval", *steps, interval);
    }
  }
  if (auto mode = draft.text("checkpoint.async_mode")) {
    const bool pinned = *mode == "async_with_pinned_mem";
    draft.set("checkpoint.async_mode", pinned ? "async" : *mode, draft.find("checkpoint.async_mode"));
  }
  const std::string_view last = given(
      {"checkpoint.model_weights_only", "checkpoint.last_save_model_weights_only", "checkpoint.last_save_model_only"});
  // Weights alone are the default since 25 June 2025. enable_checkpoint was there until August: of a file with it, only
  // the names that came in between say that it is of the time after that day.
  const std::initializer_list<std::string_view> later = {"checkpoint.last_save_in_safetensors_format",
                                                         "checkpoint.last_save_in_hf",
                                                         "checkpoint.initial_load_model_only",
                                                         "checkpoint.initial_load_in_hf",
                                                         "lr_scheduler.min_lr_factor",
                                                         "model.hf_assets_path",
                                                         "validation.enabled"};
  const bool is_open = age == TorchtitanAge::kNow && !draft.has(last) &&
                       draft.flag("checkpoint.enable_checkpoint").value_or(false) && !draft.has(given(later));
  if (is_open)
    draft.note(
        "The last checkpoint is whole here. torchtitan's were whole by default until 25 June 2025, and had the weights "
        "alone after it: checkpoint.last_save_model_only = true does that.");
  if (draft.flag(last).value_or(age == TorchtitanAge::kNow && !is_open)) {
    if (draft.has(last)) draft.set("checkpoint.last_save_model_only", true, draft.find(last));
    draft.assume("checkpoint.last_save_model_only", true, "torchtitan's default");
    if (auto type = draft.text("checkpoint.export_dtype"))
      draft.set("checkpoint.export_dtype", std::move(*type), draft.find("checkpoint.export_dtype"));
    const std::string_view in_hf = given({"checkpoint.last_save_in_safetensors_format", "checkpoint.last_save_in_hf"});
    if (draft.flag(in_hf).value_or(false)) draft.set("checkpoint.last_save_in_hf", true, draft.find(in_hf));
  }
  if (draft.flag("checkpoint.enable_first_step_checkpoint").value_or(false))
    draft.set("checkpoint.extra_steps", Numbers{1}, draft.find("checkpoint.enable_first_step_checkpoint"));
  const std::string_view first =
      given({"checkpoint.initial_load_model_weights_only", "checkpoint.initial_load_model_only"});
  if (draft.is_set("checkpoint.initial_load_path") && !draft.flag(first).value_or(true)) {
    draft.set("checkpoint.initial_load_model_only", false, draft.find(first));
    if (auto states = draft.texts("checkpoint.exclude_from_loading")) {
      std::erase(*states, "lr_scheduler");  // a function of the step here
      draft.set("checkpoint.exclude_from_loading", std::move(*states), draft.find("checkpoint.exclude_from_loading"));
    }
  }
  if (age == TorchtitanAge::k2024)
    draft.assume("checkpoint.keep_latest_k", int64_t{0}, "torchtitan's default of 2024: all are kept");
}

}  // namespace hearth::config
