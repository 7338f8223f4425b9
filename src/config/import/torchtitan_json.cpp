// torchtitan's JSON files of 2026 (--debug.save_config_file). They have the model as it is built, layer by layer.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <map>

#include "config/import/dialects.h"
#include "config/import/torchtitan_json_keys.h"
#include "config/import/torchtitan_parts.h"

namespace hearth::config {
namespace {

constexpr std::string_view kLayers = "model_spec.model.layers.";
constexpr std::string_view kFirstLayer = "model_spec.model.layers.0.";

std::string layer_key(std::string_view name) { return fmt::format("{}{}", kFirstLayer, name); }

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
    problems.push_back({key.where(), key.line, fmt::format("{} differs from layer 0's", key.assignment()),
                        "all layers have one shape: give a file of such a model", key.name});
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
  const std::string name = draft.text("model_spec.name").value_or("");
  const ForeignKey* from = draft.find("model_spec.name");
  if (from == nullptr) return draft.problem("model_spec.name is not given", "give a file that torchtitan wrote");
  if (name != "llama3" && name != "qwen3")
    return draft.refuse(*from, "the model is a dense one of llama3 or qwen3", "write the keys of [model] by hand");
  draft.note(
      "The file's layers are alike: those of layer 0 are named. Functions of Python, for first weights and "
      "sharding, are left out.");
  draft.set("model.rope_pairs", std::string(name == "llama3" ? "interleaved" : "halves"), from);
  const auto copy_whole = [&draft](std::string_view key, std::string_view part) {
    const std::string foreign = layer_key(part);
    if (const auto value = draft.whole(foreign)) draft.set(key, *value, draft.find(foreign));
  };
  copy_whole("model.n_heads", "attention.n_heads");
  copy_whole("model.n_kv_heads", "attention.n_kv_heads");
  if (!draft.is_set("model.n_kv_heads")) copy_whole("model.n_kv_heads", "attention.qkv_linear.n_kv_heads");
  copy_whole("model.head_dim", "attention.head_dim");
  if (!draft.is_set("model.head_dim")) copy_whole("model.head_dim", "attention.qkv_linear.head_dim");
  for (const std::string_view part : {"attention_norm.eps", "ffn_norm.eps", "attention.qk_norm.eps"}) {
    const ForeignKey* key = draft.find(layer_key(part));
    const Value* eps = draft.value("model.norm_eps");
    const auto given = draft.number(layer_key(part));
    if (given && eps != nullptr && std::get<double>(*eps) != *given) draft.refuse(*key, "all norms have one eps");
  }
  if (draft.has(layer_key("attention.qk_norm.eps")))
    draft.set("model.qk_norm", true, draft.find(layer_key("attention.qk_norm.eps")));
  for (const std::string_view part : {"wqkv.bias", "wq.bias", "wkv.bias"}) {
    const std::string key = layer_key(fmt::format("attention.qkv_linear.{}", part));
    if (draft.flag(key).value_or(false)) draft.set("model.qkv_bias", true, draft.find(key));
  }
  const std::string scaling = draft.text(layer_key("attention.rope.scaling")).value_or("none");
  if (scaling == "llama") {
    const std::pair<std::string_view, std::string_view> numbers[] = {{"rope_scaling_factor", "scaling_factor"},
                                                                     {"rope_low_freq_factor", "low_freq_factor"},
                                                                     {"rope_high_freq_factor", "high_freq_factor"}};
    for (const auto& [ours, theirs] : numbers) {
      const std::string key = layer_key(fmt::format("attention.rope.{}", theirs));
      if (const auto value = draft.number(key)) draft.set(fmt::format("model.{}", ours), *value, draft.find(key));
    }
    copy_whole("model.rope_original_seq_len", "attention.rope.original_max_position_embeddings");
  } else if (scaling != "none") {
    draft.refuse(*draft.find(layer_key("attention.rope.scaling")), "angles are scaled as Llama's, or not at all");
  }
  // FlexAttention and varlen keep documents apart; SDPA does not.
  const ForeignKey* flex = draft.find(layer_key("attention.inner_attention.block_size"));
  const ForeignKey* window = draft.find(layer_key("attention.inner_attention.window_size"));
  if (window != nullptr && window->value.text() != "[-1, 0]")
    draft.refuse(*window, "a position attends to its whole window");
  if (flex != nullptr || window != nullptr)
    draft.set("model.attention_scope", std::string("document"), flex != nullptr ? flex : window,
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
    const bool plain = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_';
    if (regex.substr(i).starts_with(".*")) {
      pattern += '*';
      ++i;
    } else if (regex.substr(i).starts_with("\\.")) {
      pattern += '.';
      ++i;
    } else if (plain) {
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
  int64_t groups = 0;
  const auto key_of = [](int64_t group, std::string_view part) {
    return fmt::format("optimizer.param_groups.{}.{}", group, part);
  };
  while (draft.has(key_of(groups, "pattern"))) ++groups;
  if (groups == 0) return draft.problem("optimizer.param_groups has no group", "give a file that torchtitan wrote");
  const int64_t main = groups - 1;  // the first group that fits a name has it, so the last is that of the rest
  const auto kwarg = [&](int64_t group, std::string_view part) {
    return key_of(group, fmt::format("optimizer_kwargs.{}", part));
  };
  const auto pattern = draft.text(key_of(main, "pattern"));
  if (pattern && pattern_of(*pattern) != "*")
    draft.refuse(*draft.find(key_of(main, "pattern")), "the last group has all other weights: its pattern is .*");
  refuse_json_settings(draft);
  // torch's defaults hold for what is not given.
  const bool adam = draft.text(key_of(main, "optimizer_name")).value_or("AdamW") == "Adam";
  const double lr = draft.number(kwarg(main, "lr")).value_or(1e-3),
               decay = draft.number(kwarg(main, "weight_decay")).value_or(adam ? 0 : 1e-2);
  draft.set("optimizer.lr", lr, draft.find(kwarg(main, "lr")));
  draft.set("optimizer.weight_decay", decay, draft.find(kwarg(main, "weight_decay")));
  draft.set("optimizer.weight_decay_on", std::string("all"), draft.find(key_of(main, "pattern")));
  const std::vector<double> usual = {0.9, 0.999};
  const auto betas = draft.numbers(kwarg(main, "betas")).value_or(usual);
  if (betas.size() != 2) return draft.refuse(*draft.find(kwarg(main, "betas")), "not two numbers");
  draft.set("optimizer.beta1", betas[0], draft.find(kwarg(main, "betas")));
  draft.set("optimizer.beta2", betas[1], draft.find(kwarg(main, "betas")));
  const double eps = draft.number(kwarg(main, "eps")).value_or(1e-8);
  draft.set("optimizer.eps", eps, draft.find(kwarg(main, "eps")));
  for (int64_t group = 0; group < groups; ++group) {
    const std::string name = draft.text(key_of(group, "optimizer_name")).value_or("AdamW");
    if (name != "AdamW" && !(name == "Adam" && groups == 1))
      draft.refuse(*draft.find(key_of(group, "optimizer_name")), "all groups have AdamW", "see [optimizer] for Muon");
    else if (name == "Adam")
      draft.set("optimizer.name", name, draft.find(key_of(group, "optimizer_name")));
    if (group == main) continue;
    const ForeignKey* from = draft.find(key_of(group, "pattern"));
    const auto glob = pattern_of(draft.text(from->name).value_or(""));
    if (!glob || glob->find("qkv_linear") != std::string::npos) {
      draft.refuse(*from, "a pattern has * for any text, and Hearth's names of weights",
                   "write [[optimizer.group]] by hand");
      continue;
    }
    if (draft.numbers(kwarg(group, "betas")).value_or(usual) != betas ||
        draft.number(kwarg(group, "eps")).value_or(1e-8) != eps)
      draft.refuse(*from, "all groups have the same betas and eps");
    const double own_lr = draft.number(kwarg(group, "lr")).value_or(1e-3),
                 own_decay = draft.number(kwarg(group, "weight_decay")).value_or(1e-2);
    draft.set(fmt::format("optimizer.group.{}.pattern", group), *glob, from);
    if (own_lr != lr && lr > 0)
      draft.set(fmt::format("optimizer.group.{}.lr_factor", group), own_lr / lr, draft.find(kwarg(group, "lr")),
                "of optimizer.lr");
    draft.set(fmt::format("optimizer.group.{}.weight_decay", group), own_decay,
              draft.find(kwarg(group, "weight_decay")));
  }
  if (draft.text("optimizer.implementation").value_or("fused") == "fused_opt_states_bf16")
    draft.set("optimizer.moments_dtype", std::string("bfloat16"), draft.find("optimizer.implementation"));
  const auto total = draft.whole("lr_scheduler.total_steps");
  const Value* steps = draft.value("training.steps");
  if (total && (steps == nullptr || std::get<int64_t>(*steps) != *total))
    draft.refuse(*draft.find("lr_scheduler.total_steps"), "the schedule has the length of the training",
                 "train that many steps, and stop earlier with Ctrl-C");
}

void import_json_batch(Draft& draft) {
  ForeignLayout layout = torchtitan_layout(draft);
  const ForeignKey* micro_key = draft.find("training.num_tokens_per_microbatch_per_dp_rank");
  const ForeignKey* step_key = draft.find("training.num_tokens_per_train_step");
  const int64_t micro = draft.whole("training.num_tokens_per_microbatch_per_dp_rank").value_or(16384);
  const int64_t step = draft.whole("training.num_tokens_per_train_step").value_or(-1);
  const Value* length_value = draft.value("training.seq_len");
  const int64_t length = length_value == nullptr ? 2048 : std::get<int64_t>(*length_value);
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
    draft.set("memory.loss_chunk_tokens", (micro + *chunks - 1) / *chunks, draft.find("loss.num_chunks"),
              "tokens of a chunk");
}

void import_json_data(Draft& draft) {
  int64_t sources = 0;
  const auto key_of = [](int64_t source, std::string_view part) {
    return fmt::format("dataloader.source.{}.{}", source, part);
  };
  while (draft.has(key_of(sources, "path")) || draft.has(key_of(sources, "paths"))) ++sources;
  for (int64_t i = 0; i < sources; ++i) {
    const ForeignKey* from = draft.find(key_of(i, draft.has(key_of(i, "path")) ? "path" : "paths"));
    const auto paths = draft.texts(from->name);
    set_source(draft, sources == 1 ? -1 : i, paths && !paths->empty() ? paths->front() : "", from);
    if (sources > 1)
      draft.set(fmt::format("data.source.{}.weight", i), draft.number(key_of(i, "weight")).value_or(1),
                draft.find(key_of(i, "weight")));
  }
  bool weighted = sources < 2;
  for (int64_t i = 0; i < sources; ++i) weighted = weighted || draft.has(key_of(i, "weight"));
  if (!weighted)
    draft.refuse(*draft.find(key_of(1, draft.has(key_of(1, "path")) ? "path" : "paths")),
                 "these datasets follow each other, without weights: Hearth mixes datasets",
                 "build one dataset of all of them");
  if (sources == 0) draft.set("data.path", std::string("data/text"), nullptr, "the file does not name it");
  if (sources > 1 && draft.has("dataloader.mixes_documents"))
    draft.set("data.weight_unit", std::string("documents"), draft.find("dataloader.mixes_documents"));
  if (!draft.flag("dataloader.shuffle").value_or(true))
    draft.set("data.order", std::string("sequential"), draft.find("dataloader.shuffle"));
  if (draft.has("dataloader.dataset.num_packing_bins"))
    draft.set("data.packing", std::string("best_fit"), draft.find("dataloader.dataset.num_packing_bins"),
              "whole documents in a window, as far as they fit");
}

void import_json_rest(Draft& draft) {
  if (const ForeignKey* selective = draft.find("activation_checkpoint.force_recompute_mm_shapes_by_fqns"))
    draft.set("memory.recompute", std::string("norms"), selective, "the closest: products are kept");
  else if (const ForeignKey* budget = draft.find("activation_checkpoint.memory_budget"))
    draft.set("memory.recompute", std::string("auto"), budget, "the cheapest that fits");
  else if (const ForeignKey* full = draft.find("activation_checkpoint.preserve_rng_state"))
    draft.set("memory.recompute", std::string("block"), full);
  if (!draft.flag("validator.enable").value_or(false)) return;
  draft.set("validation.freq", draft.whole("validator.freq").value_or(10), draft.find("validator.freq"));
  draft.set("validation.steps", draft.whole("validator.steps").value_or(-1), draft.find("validator.steps"));
}

void import_torchtitan_json_keys(Draft& draft) {
  import_json_model(draft);
  import_json_optimizer(draft);
  import_json_batch(draft);
  import_json_data(draft);
  import_json_rest(draft);
  import_torchtitan_metrics(draft);
  import_torchtitan_profiling(draft, "profiler");
  import_torchtitan_pipeline(draft);
  import_torchtitan_checkpoint(draft, TorchtitanAge::kNow);
  draft.assume("training.mixed_precision_param", std::string("bfloat16"), "torchtitan's default");
  draft.assume("training.steps", int64_t{10000}, "torchtitan's default");
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
