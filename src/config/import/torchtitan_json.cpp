// SPDX-License-Identifier: Apache-2.0
// torchtitan's JSON files of 2026 (--debug.save_config_file). They have the model as it is built, layer by layer.
#include <fmt/format.h>

#include <algorithm>
#include <map>

#include "base/quantity.h"
#include "config/import/dialects.h"
#include "config/import/torchtitan_parts.h"

namespace hearth::config {
namespace {

constexpr std::string_view kLayers = "model_spec.model.layers.";
constexpr std::string_view kFirstLayer = "model_spec.model.layers.0.";

// A key of layer 0, or null: "attention.n_heads".
const ForeignKey* layer_key(const Draft& draft, std::string_view name) {
  return draft.find(fmt::format("{}{}", kFirstLayer, name));
}

// How torchtitan's code makes the first weights, and how it shards them: not values, but names of functions.
bool is_code(std::string_view name) {
  for (const std::string_view part : {".param_init", ".sharding_config"}) {
    const size_t at = name.find(part);
    if (at == std::string_view::npos) continue;
    const std::string_view rest = name.substr(at + part.size());
    if (rest.empty() || rest.front() == '.') return true;
  }
  return false;
}

// Keeps layer 0, where all layers say the same, and their number as "model_spec.model.num_layers".
void join_layers(std::vector<ForeignKey>& keys, std::vector<Problem>& problems) {
  std::map<std::string, std::string, std::less<>> first;
  for (const ForeignKey& key : keys) {
    if (key.name.starts_with(kFirstLayer)) first[key.name.substr(kFirstLayer.size())] = key.value.text();
  }
  int64_t layers = 0;
  const ForeignKey* last = nullptr;
  bool told = false;
  for (const ForeignKey& key : keys) {
    if (!key.name.starts_with(kLayers)) continue;
    const std::string rest = key.name.substr(kLayers.size());
    const size_t dot = rest.find('.');
    if (dot == std::string::npos || rest.substr(0, dot).find_first_not_of("0123456789") != std::string::npos || dot > 6)
      continue;
    const int64_t layer = std::stoll(rest.substr(0, dot));
    if (layer >= layers) {
      layers = layer + 1;
      last = &key;
    }
    const auto same = first.find(rest.substr(dot + 1));
    if (told || (same != first.end() && same->second == key.value.text())) continue;
    told = true;
    problems.push_back(problem_of(key, fmt::format("{} differs from layer 0's", key.assignment()),
                                  "all layers have one shape: give a file of such a model"));
  }
  if (layers == 0) return;
  ForeignKey number{"model_spec.model.num_layers", {layers}, last->file, last->line};
  std::erase_if(
      keys, [](const ForeignKey& key) { return key.name.starts_with(kLayers) && !key.name.starts_with(kFirstLayer); });
  keys.push_back(std::move(number));
}

// dataloader.source.N.path, .name and .weight, for the datasets of a mixture or the only one. Within a packing the
// mixture is one of documents, else one of packed rows.
void number_sources(std::vector<ForeignKey>& keys) {
  constexpr std::string_view kBegin = "dataloader.", kSource = ".source.", kWeight = "weight";
  std::map<std::string, size_t> numbers;  // by what stands before ".source."
  const auto rename = [](ForeignKey& key, size_t number, std::string_view part) {
    key.shown = key.name;
    key.name = fmt::format("dataloader.source.{}.{}", number, part);
  };
  for (ForeignKey& key : keys) {
    const size_t at = key.name.rfind(kSource);
    if (!key.name.starts_with(kBegin) || at == std::string::npos) continue;
    const size_t number = numbers.emplace(key.name.substr(0, at), numbers.size()).first->second;
    const std::string part = key.name.substr(at + kSource.size());
    if (part == "path" || part == "paths" || part == "name") rename(key, number, part);
  }
  const ForeignKey* documents = nullptr;
  for (ForeignKey& key : keys) {
    if (!key.name.starts_with(kBegin) || !key.name.ends_with(".weight") || !key.shown.empty()) continue;
    const std::string entry = key.name.substr(0, key.name.size() - kWeight.size());
    for (const auto& [prefix, number] : numbers) {
      if (!prefix.starts_with(entry)) continue;
      if (entry.starts_with("dataloader.dataset.dataset.")) documents = &key;
      rename(key, number, kWeight);
      break;
    }
  }
  if (documents == nullptr) return;
  ForeignKey mixes{"dataloader.mixes_documents", {true}, documents->file, documents->line, documents->shown};
  keys.push_back(std::move(mixes));
}

void prepare_torchtitan_json(std::vector<ForeignKey>& keys, std::vector<Problem>& problems) {
  std::erase_if(keys, [](const ForeignKey& key) { return is_code(key.name); });
  join_layers(keys, problems);
  number_sources(keys);
}

void import_json_model(Draft& draft) {
  const ForeignKey* from = draft.find("model_spec.name");
  const std::string name = draft.text(from).value_or("");
  if (from == nullptr) return draft.problem("model_spec.name is not given", "give a file that torchtitan wrote");
  if (name != "llama3" && name != "qwen3")
    return draft.refuse(*from, "the model is a dense one of llama3 or qwen3", "write the keys of [model] by hand");
  draft.note(
      "The file's layers are alike: those of layer 0 are named. Functions of Python, for first weights and "
      "sharding, are left out.");
  draft.set("model.rope_pairs", name == "llama3" ? "interleaved" : "halves", from);
  const auto take = [&draft](std::string_view key, std::string_view part) {
    return draft.take(key, layer_key(draft, part));
  };
  take("model.n_heads", "attention.n_heads");
  for (const std::string_view key : {"n_kv_heads", "head_dim"}) {
    const std::string ours = fmt::format("model.{}", key);
    take(ours, fmt::format("attention.{}", key));
    if (!draft.is_set(ours)) take(ours, fmt::format("attention.qkv_linear.{}", key));
  }
  for (const std::string_view part : {"attention_norm.eps", "ffn_norm.eps", "attention.qk_norm.eps"}) {
    const ForeignKey* key = layer_key(draft, part);
    const auto* eps = draft.value<double>("model.norm_eps");
    const auto given = draft.number(key);
    if (given && eps != nullptr && *eps != *given) draft.refuse(*key, "all norms have one eps");
  }
  if (const ForeignKey* norm = layer_key(draft, "attention.qk_norm.eps")) draft.set("model.qk_norm", true, norm);
  for (const std::string_view part : {"wqkv.bias", "wq.bias", "wkv.bias"})
    draft.set_if_on("model.qkv_bias", true, fmt::format("{}attention.qkv_linear.{}", kFirstLayer, part));
  const ForeignKey* kind = layer_key(draft, "attention.rope.scaling");
  const std::string scaling = draft.text(kind).value_or("none");
  if (scaling == "llama") {
    take("model.rope_scaling_factor", "attention.rope.scaling_factor");
    take("model.rope_low_freq_factor", "attention.rope.low_freq_factor");
    take("model.rope_high_freq_factor", "attention.rope.high_freq_factor");
    take("model.rope_original_seq_len", "attention.rope.original_max_position_embeddings");
  } else if (scaling != "none") {
    draft.refuse(*kind, "angles are scaled as Llama's, or not at all");
  }
  // FlexAttention and varlen keep documents apart; SDPA does not.
  const ForeignKey *flex = layer_key(draft, "attention.inner_attention.block_size"),
                   *window = layer_key(draft, "attention.inner_attention.window_size");
  if (window != nullptr && window->value.text() != "[-1, 0]")
    draft.refuse(*window, "windows are not imported: leave it out, and set model.sliding_window");
  if (flex != nullptr || window != nullptr)
    draft.set("model.attention_scope", "document", flex != nullptr ? flex : window,
              "every document attends to itself alone");
}

// A regular expression of literals, . and .*, which finds a part of a name, as a pattern with *.
std::optional<std::string> pattern_of(std::string_view regex) {
  std::string pattern;
  const bool begins = regex.starts_with('^'), ends = regex.ends_with('$') && !regex.ends_with("\\$");
  if (begins) regex.remove_prefix(1);
  if (ends) regex.remove_suffix(1);
  if (!begins) pattern += '*';
  for (size_t i = 0; i < regex.size(); ++i) {
    const char c = regex[i];
    if (regex.substr(i).starts_with(".*")) {
      pattern += '*';
      ++i;
    } else if (regex.substr(i).starts_with("\\.")) {
      pattern += '.';
      ++i;
    } else if (is_word(c)) {
      pattern += c;
    } else {
      return std::nullopt;
    }
  }
  if (!ends) pattern += '*';
  for (size_t twice = pattern.find("**"); twice != std::string::npos; twice = pattern.find("**"))
    pattern.erase(twice, 1);
  return pattern;
}

// Settings of a group's optimizer that change the update, and that Hearth does not have.
void refuse_json_settings(Draft& draft) {
  constexpr std::string_view kMark = ".optimizer_kwargs.";
  for (const ForeignKey* key : draft.keys_under("optimizer.param_groups.")) {
    const size_t at = key->name.find(kMark);
    if (at == std::string::npos) continue;
    std::string_view setting = std::string_view(key->name).substr(at + kMark.size());
    setting = setting.substr(0, setting.find('.'));
    const bool known = setting == "lr" || setting == "betas" || setting == "eps" || setting == "weight_decay";
    const bool kernel = setting == "fused" || setting == "foreach" || setting == "capturable";
    if (!known && !kernel && key->value.text() != "false")
      draft.refuse(*key, "a group's AdamW has lr, betas, eps and weight_decay");
  }
}

void import_json_optimizer(Draft& draft) {
  const auto find = [&draft](int64_t group, std::string_view part) {
    return draft.find(fmt::format("optimizer.param_groups.{}.{}", group, part));
  };
  int64_t main = -1;  // the first group that fits a name has it, so the last is that of the rest
  while (find(main + 1, "pattern") != nullptr) ++main;
  if (main < 0) return draft.problem("optimizer.param_groups has no group", "give a file that torchtitan wrote");
  const ForeignKey *rest = find(main, "pattern"), *lr_key = find(main, "optimizer_kwargs.lr"),
                   *decay_key = find(main, "optimizer_kwargs.weight_decay"),
                   *betas_key = find(main, "optimizer_kwargs.betas"), *eps_key = find(main, "optimizer_kwargs.eps");
  if (const auto pattern = draft.text(rest); pattern && pattern_of(*pattern) != "*")
    draft.refuse(*rest, "the last group has all other weights: its pattern is .*");
  refuse_json_settings(draft);
  // torch's defaults hold for what is not given.
  const Numbers usual = {0.9, 0.999};
  const bool adam = draft.text(find(main, "optimizer_name")).value_or("AdamW") == "Adam";
  const double lr = draft.number(lr_key).value_or(1e-3), decay = draft.number(decay_key).value_or(adam ? 0 : 1e-2);
  draft.set("optimizer.lr", lr, lr_key);
  draft.set("optimizer.weight_decay", decay, decay_key);
  draft.set("optimizer.weight_decay_on", "all", rest);
  const Numbers betas = draft.numbers(betas_key).value_or(usual);
  if (betas.size() != 2) return draft.refuse(*betas_key, "not two numbers");
  draft.set("optimizer.beta1", betas[0], betas_key);
  draft.set("optimizer.beta2", betas[1], betas_key);
  const double eps = draft.number(eps_key).value_or(1e-8);
  draft.set("optimizer.eps", eps, eps_key);
  for (int64_t group = 0; group <= main; ++group) {
    const ForeignKey *from = find(group, "pattern"), *name_key = find(group, "optimizer_name");
    const std::string name = draft.text(name_key).value_or("AdamW");
    if (name != "AdamW" && !(name == "Adam" && main == 0))
      draft.refuse(*name_key, "all groups have AdamW", "see [optimizer] for Muon");
    else if (name == "Adam")
      draft.set("optimizer.name", name, name_key);
    if (group == main) break;
    const auto glob = pattern_of(draft.text(from).value_or(""));
    if (!glob || glob->find("qkv_linear") != std::string::npos) {
      draft.refuse(*from, "a pattern has * for any text, and Hearth's names of weights",
                   "write [[optimizer.group]] by hand");
      continue;
    }
    if (draft.numbers(find(group, "optimizer_kwargs.betas")).value_or(usual) != betas ||
        draft.number(find(group, "optimizer_kwargs.eps")).value_or(1e-8) != eps)
      draft.refuse(*from, "all groups have the same betas and eps");
    const ForeignKey *own_key = find(group, "optimizer_kwargs.lr"),
                     *own_decay_key = find(group, "optimizer_kwargs.weight_decay");
    const double own = draft.number(own_key).value_or(1e-3), own_decay = draft.number(own_decay_key).value_or(1e-2);
    const std::string ours = fmt::format("optimizer.group.{}.", group);
    draft.set(ours + "pattern", *glob, from);
    if (own != lr && lr > 0) draft.set(ours + "lr_factor", own / lr, own_key, "of optimizer.lr");
    draft.set(ours + "weight_decay", own_decay, own_decay_key);
  }
  if (draft.text("optimizer.implementation").value_or("fused") == "fused_opt_states_bf16")
    draft.set("optimizer.moments_dtype", "bfloat16", draft.find("optimizer.implementation"));
  const auto total = draft.whole("lr_scheduler.total_steps");
  const auto* steps = draft.value<int64_t>("training.steps");
  if (total && (steps == nullptr || *steps != *total)) refuse_torchtitan_total(draft);
}

void import_json_batch(Draft& draft) {
  ForeignLayout layout = torchtitan_layout(draft);
  const ForeignKey* micro_key = draft.find("training.num_tokens_per_microbatch_per_dp_rank");
  const ForeignKey* step_key = draft.find("training.num_tokens_per_train_step");
  const int64_t micro = draft.whole(micro_key).value_or(16384);
  const int64_t step = draft.whole(step_key).value_or(-1);
  const auto* given = draft.value<int64_t>("training.seq_len");
  const int64_t length = given == nullptr ? 2048 : *given;
  draft.assume("training.seq_len", length, "torchtitan's default");
  if (micro < length || micro % length != 0 || (step > 0 && step % length != 0)) {
    const ForeignKey* wrong = step > 0 && step % length != 0 ? step_key : micro_key;
    if (wrong == nullptr)
      return draft.problem("the default number of tokens is no multiple of max_context_length", "give it");
    return draft.refuse(*wrong, fmt::format("not a multiple of training.max_context_length = {}", length));
  }
  const bool pipeline = layout.pipeline.value > 1;
  const int64_t together =
      pipeline ? std::clamp<int64_t>(draft.whole("parallelism.num_pp_microbatches").value_or(1), 1, 1 << 20) : 1;
  const int64_t local = std::min<int64_t>(micro / length * together, int64_t{1} << 30);
  if (step > 0)
    draft.set("training.global_batch_size", step / length, step_key, fmt::format("windows of {} tokens", length));
  if (step > 0 && !draft.options().layout) return set_layout(draft, layout, 1, nullptr);
  if (!resolve_layout(draft, layout, step > 0 ? "the layout" : "the global batch")) return;
  if (step <= 0)
    draft.set("training.global_batch_size", bounded_product({local, layout.data()}), micro_key,
              fmt::format("{} windows x {} data-parallel ranks", local, layout.data()));
  set_torchtitan_layout(draft, layout, local, micro_key);
  if (pipeline && draft.options().layout)
    draft.set("parallelism.pipeline_parallel_microbatch_size", micro / length, micro_key);
  const auto chunks = draft.whole("loss.num_chunks");
  if (chunks && *chunks > 0 && *chunks <= micro)
    draft.set("memory.loss_chunk_tokens", div_ceil(micro, *chunks), draft.find("loss.num_chunks"), "tokens of a chunk");
}

void import_json_data(Draft& draft) {
  const auto find = [&draft](int64_t source, std::string_view part) {
    return draft.find(fmt::format("dataloader.source.{}.{}", source, part));
  };
  std::vector<const ForeignKey*> sources;
  for (int64_t i = 0;; ++i) {
    const ForeignKey* path = find(i, "path");
    if (path == nullptr) path = find(i, "paths");
    if (path == nullptr) break;
    sources.push_back(path);
  }
  const bool mixes = sources.size() > 1;
  bool weighted = false;
  for (int64_t i = 0; const ForeignKey* from : sources) {
    const auto paths = draft.texts(from);
    set_source(draft, mixes ? i : -1, paths && !paths->empty() ? paths->front() : "", from);
    const ForeignKey* weight = find(i, "weight");
    if (mixes) draft.take_or(fmt::format("data.source.{}.weight", i), weight, 1.0, "");
    weighted = weighted || weight != nullptr;
    ++i;
  }
  if (mixes && !weighted)
    draft.refuse(*sources[1], "these datasets follow each other, without weights: Hearth mixes datasets",
                 "build one dataset of all of them");
  if (sources.empty()) draft.set("data.path", "data/text", nullptr, "the file does not name it");
  const ForeignKey* documents = draft.find("dataloader.mixes_documents");
  if (mixes && documents != nullptr) draft.set("data.weight_unit", "documents", documents);
  if (!draft.flag("dataloader.shuffle").value_or(true))
    draft.set("data.order", "sequential", draft.find("dataloader.shuffle"));
  if (const ForeignKey* bins = draft.find("dataloader.dataset.num_packing_bins"))
    draft.set("data.packing", "best_fit", bins, "whole documents in a window, as far as they fit");
}

void import_json_rest(Draft& draft) {
  if (const ForeignKey* selective = draft.find("activation_checkpoint.force_recompute_mm_shapes_by_fqns"))
    draft.set("memory.recompute", "norms", selective, "the closest: products are kept");
  else if (const ForeignKey* budget = draft.find("activation_checkpoint.memory_budget"))
    draft.set("memory.recompute", "auto", budget, "the cheapest that fits");
  else if (const ForeignKey* full = draft.find("activation_checkpoint.preserve_rng_state"))
    draft.set("memory.recompute", "block", full);
  if (!draft.is_on("validator.enable")) return;
  draft.take_or("validation.freq", "validator.freq", 10, "");
  draft.take_or("validation.steps", "validator.steps", -1, "");
}

void import_torchtitan_json_keys(Draft& draft) {
  import_json_model(draft);
  import_json_optimizer(draft);
  import_json_batch(draft);
  import_json_data(draft);
  import_json_rest(draft);
  refuse_torchtitan_no_norm(draft);
  import_torchtitan_metrics(draft);
  import_torchtitan_profiling(draft, "profiler");
  import_torchtitan_pipeline(draft);
  import_torchtitan_checkpoint(draft, TorchtitanAge::kNow);
  draft.assume("training.mixed_precision_param", "bfloat16", "torchtitan's default");
  draft.assume("training.steps", 10000, "torchtitan's default");
}

}  // namespace

Dialect torchtitan_json() {
  return {.name = "torchtitan-json",
          .title = "torchtitan",
          .rules = torchtitan_json_rules(),
          .import = import_torchtitan_json_keys,
          .prepare = prepare_torchtitan_json};
}

}  // namespace hearth::config
