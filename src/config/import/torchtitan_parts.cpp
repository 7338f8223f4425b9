// SPDX-License-Identifier: Apache-2.0
// What torchtitan's TOML files and its JSON files say alike.
#include "config/import/torchtitan_parts.h"

#include <fmt/format.h>

#include <utility>

namespace hearth::config {

ForeignDegree torchtitan_degree(Draft& draft, std::string_view key, bool rest) {
  const std::string now = fmt::format("parallelism.{}", key), before = fmt::format("training.{}", key),
                    once = fmt::format("experimental.{}", key);
  return foreign_degree(draft, {now, before, once}, rest);
}

ForeignLayout torchtitan_layout(Draft& draft) {
  ForeignLayout layout;
  layout.replicate = torchtitan_degree(draft, "data_parallel_replicate_degree");
  layout.shard = torchtitan_degree(draft, "data_parallel_shard_degree", true);
  // Until September 2024 there was one degree, of FSDP or of DDP.
  if (draft.has("training.data_parallel_degree") || draft.has("training.data_parallel_type")) {
    const ForeignDegree all = foreign_degree(draft, {"training.data_parallel_degree"}, true);
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
  draft.set_if_on("metrics.enable_tensorboard", true, "metrics.enable_tensorboard");
  if (draft.text("metrics.save_tb_folder") && draft.is_set("metrics.enable_tensorboard"))
    draft.take("metrics.save_tb_folder", "metrics.save_tb_folder");
}

void import_torchtitan_profiling(Draft& draft, std::string_view section) {
  const auto key = [&](std::string_view name) { return draft.find(fmt::format("{}.{}", section, name)); };
  const auto take = [&](std::string_view name) { draft.take(fmt::format("profiling.{}", name), key(name)); };
  const bool traces = draft.flag(key("enable_profiling")).value_or(false),
             memory = draft.flag(key("enable_memory_snapshot")).value_or(false);
  // Values without effect are left out, but their types are checked.
  draft.whole(key("profile_freq"));
  draft.whole(key("profiler_active"));
  draft.text(key("save_traces_folder"));
  draft.text(key("save_memory_snapshot_folder"));
  if (traces)
    for (const std::string_view name : {"enable_profiling", "save_traces_folder", "profiler_active"}) take(name);
  if (memory)
    for (const std::string_view name : {"enable_memory_snapshot", "save_memory_snapshot_folder"}) take(name);
  if (traces || memory) take("profile_freq");
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
    draft.take(name, name);
  }
}

void refuse_torchtitan_total(Draft& draft) {
  draft.refuse("lr_scheduler.total_steps", "the schedule has the length of the training",
               "train that many steps, and stop earlier with Ctrl-C");
}

void refuse_torchtitan_no_norm(Draft& draft) {
  const ForeignKey* norm = draft.find("training.max_norm");
  if (draft.number(norm).value_or(1) == 0)
    draft.refuse(*norm, "torchtitan scales every gradient to 0 with it, and Hearth would not clip",
                 "give the norm that was meant");
}

void import_torchtitan_checkpoint(Draft& draft, TorchtitanAge age) {
  for (const std::string_view name : {"checkpoint.enable", "checkpoint.enable_checkpoint"}) {
    if (draft.flag(name).value_or(true)) continue;
    draft.note(
        "The file turns checkpoints off. Hearth's runs have them: checkpoint.interval = 0 saves at the end alone.");
  }
  const ForeignKey *interval = draft.find("checkpoint.interval"), *unit = draft.find("checkpoint.interval_type");
  const bool seconds = draft.text(unit).value_or("steps") == "seconds";
  if (draft.number(interval)) {
    draft.take(seconds ? "checkpoint.interval_seconds" : "checkpoint.interval", interval);
    if (seconds) draft.set("checkpoint.interval", 0, unit);
  }
  if (auto mode = draft.text("checkpoint.async_mode")) {
    const bool pinned = *mode == "async_with_pinned_mem";
    draft.set("checkpoint.async_mode", pinned ? "async" : *mode, draft.find("checkpoint.async_mode"));
  }
  const ForeignKey* last = draft.first_of(
      {"checkpoint.model_weights_only", "checkpoint.last_save_model_weights_only", "checkpoint.last_save_model_only"});
  // Weights alone are the default since 25 June 2025. enable_checkpoint was there until August: of a file with it, only
  // the names that came in between say that it is of the time after that day.
  const bool is_later =
      draft.first_of({"checkpoint.last_save_in_safetensors_format", "checkpoint.last_save_in_hf",
                      "checkpoint.initial_load_model_only", "checkpoint.initial_load_in_hf",
                      "lr_scheduler.min_lr_factor", "model.hf_assets_path", "validation.enabled"}) != nullptr;
  const bool is_open =
      age == TorchtitanAge::kNow && last == nullptr && draft.is_on("checkpoint.enable_checkpoint") && !is_later;
  if (is_open)
    draft.note(
        "The last checkpoint is whole here. torchtitan's were whole by default until 25 June 2025, and had the weights "
        "alone after it: checkpoint.last_save_model_only = true does that.");
  if (draft.flag(last).value_or(age == TorchtitanAge::kNow && !is_open)) {
    if (last != nullptr) draft.set("checkpoint.last_save_model_only", true, last);
    draft.assume("checkpoint.last_save_model_only", true, "torchtitan's default");
    draft.take("checkpoint.export_dtype", "checkpoint.export_dtype");
    if (const ForeignKey* in_hf =
            draft.first_of({"checkpoint.last_save_in_safetensors_format", "checkpoint.last_save_in_hf"}))
      draft.set_if_on("checkpoint.last_save_in_hf", true, in_hf->name);
  }
  draft.set_if_on("checkpoint.extra_steps", Numbers{1}, "checkpoint.enable_first_step_checkpoint");
  const ForeignKey* first =
      draft.first_of({"checkpoint.initial_load_model_weights_only", "checkpoint.initial_load_model_only"});
  if (draft.is_set("checkpoint.initial_load_path") && !draft.flag(first).value_or(true)) {
    draft.set("checkpoint.initial_load_model_only", false, first);
    if (auto states = draft.texts("checkpoint.exclude_from_loading")) {
      std::erase(*states, "lr_scheduler");  // a function of the step here
      draft.set("checkpoint.exclude_from_loading", std::move(*states), draft.find("checkpoint.exclude_from_loading"));
    }
  }
  if (age == TorchtitanAge::k2024)
    draft.assume("checkpoint.keep_latest_k", 0, "torchtitan's default of 2024: all are kept");
}

}  // namespace hearth::config
