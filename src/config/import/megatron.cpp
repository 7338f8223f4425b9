// SPDX-License-Identifier: Apache-2.0
// Megatron-LM's options, as its pretrain_gpt.py takes them.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <utility>

#include "base/quantity.h"
#include "config/import/dialects.h"
#include "config/import/megatron_experts.h"

namespace hearth::config {
namespace {

void import_megatron_width(Draft& draft) {
  need_value(draft, "swiglu", {"true"}, "false", "the feed-forward is SwiGLU", "--swiglu");
  need_value(draft, "disable_bias_linear", {"true"}, "false", "linear layers have no biases", "--disable-bias-linear");
  const auto* dim = draft.value<int64_t>("model.dim");
  if (dim == nullptr) return draft.problem("--hidden-size is not given", "give it");
  if (draft.take("model.hidden_dim", "ffn_hidden_size")) return;
  const double eight_thirds = 4 * static_cast<double>(*dim) * 2 / 3;
  draft.set("model.hidden_dim", std::max<int64_t>(static_cast<int64_t>(eight_thirds / 64) * 64, 1), nullptr,
            "Megatron-LM's default: 8/3 of the width, cut to a multiple of 64");
}

// The number of tokens that the embeddings have weights for.
void import_megatron_vocabulary(Draft& draft) {
  if (draft.is_set("model.vocab_size")) return;
  const bool whole = draft.is_on("no_pad_vocab_size") || draft.is_on("disable_pad_vocab_size");
  const int64_t multiple = draft.whole("make_vocab_size_divisible_by").value_or(128);
  const ForeignKey* from = draft.find("vocab_size");
  const auto given = draft.whole(from);
  if (given && whole) return draft.set("model.vocab_size", *given, from);
  if (given && *given > 0 && is_count(multiple)) {
    const int64_t tensor = std::clamp<int64_t>(draft.whole("tensor_model_parallel_size").value_or(1), 1, 1 << 20);
    const int64_t padded = round_up(*given, multiple * tensor);
    return draft.set("model.vocab_size", padded, from,
                     padded == *given ? "" : fmt::format("padded to a multiple of {} x {} ranks", multiple, tensor));
  }
  draft.note(
      fmt::format("Megatron-LM pads the vocabulary to a multiple of {} x tensor-model-parallel-size. Give "
                  "model.vocab_size, where its weights are to be continued.",
                  multiple));
}

void import_megatron_model(Draft& draft) {
  import_megatron_width(draft);
  if (!draft.has("num_layers") && !draft.has("encoder_num_layers"))
    draft.problem("--num-layers is not given", "give it");
  if (!draft.has("num_attention_heads")) draft.problem("--num-attention-heads is not given", "give it");
  if (!draft.has("seq_length") && !draft.has("encoder_seq_length"))
    draft.problem("--seq-length is not given", "give it");
  if (draft.is_on("group_query_attention")) {
    const ForeignKey* groups = draft.first_of({"num_query_groups", "group_query_attention"});
    draft.set("model.n_kv_heads", draft.whole("num_query_groups").value_or(1), groups,
              draft.has("num_query_groups") ? "" : "Megatron-LM's default");
  }
  if (draft.has("num_query_groups") && !draft.is_on("group_query_attention"))
    draft.note("Without --group-query-attention Megatron-LM does not read --num-query-groups.");
  if (!draft.is_on("use_rotary_position_embeddings"))
    need_value(draft, "position_embedding_type", {"rope"}, "learned_absolute", "positions are rotary",
               "--position-embedding-type");
  need_value(draft, "normalization", {"RMSNorm"}, "LayerNorm", "norms are RMSNorm, without biases", "--normalization");
  need_value(draft, "hidden_dropout", {"0"}, "0.1", "there is no dropout", "--hidden-dropout");
  need_value(draft, "attention_dropout", {"0"}, "0.1", "there is no dropout", "--attention-dropout");
  const bool interleaved = draft.is_on("rotary_interleaved");
  draft.set("model.rope_pairs", interleaved ? "interleaved" : "halves", draft.find("rotary_interleaved"),
            interleaved ? "" : "as Megatron-LM rotates");
  if (draft.is_on("use_rope_scaling"))
    draft.set("model.rope_scaling_factor", draft.number("rope_scaling_factor").value_or(8),
              draft.find("use_rope_scaling"), "Llama 3.1's scaling of angles");
  draft.set_if_on("model.qkv_bias", true, "add_qkv_bias");
  if (!draft.is_on("untie_embeddings_and_output_weights"))
    draft.set("model.enable_weight_tying", true, nullptr, "Megatron-LM's default");
  import_megatron_vocabulary(draft);
  draft.set("model.init", "normal", nullptr, "as Megatron-LM begins");
  draft.set("model.output_init", "scaled_normal", nullptr);
  draft.take("model.init_std", "init_method_std");
  import_megatron_experts(draft);
}

// Samples as steps of the global batch.
std::optional<int64_t> steps_of_samples(Draft& draft, std::string_view name) {
  const auto samples = draft.whole(name);
  const auto* batch = draft.value<int64_t>("training.global_batch_size");
  if (!samples || *samples <= 0 || batch == nullptr || *batch <= 0) return std::nullopt;
  return *samples / *batch;
}

// Megatron-LM counts iterations or samples, and stops where it is given both.
void refuse_two_counts(Draft& draft) {
  constexpr std::pair<std::string_view, std::string_view> kPairs[] = {
      {"train_iters", "train_samples"},           {"train_iters", "lr_decay_samples"},
      {"train_iters", "lr_warmup_samples"},       {"train_samples", "lr_decay_iters"},
      {"train_samples", "lr_warmup_iters"},       {"lr_warmup_fraction", "lr_warmup_iters"},
      {"lr_warmup_fraction", "lr_warmup_samples"}};
  for (const auto& [first, second] : kPairs) {
    // A fraction of 0 is one that is given.
    const bool first_counts = draft.number(first).value_or(0) != 0 || first == "lr_warmup_fraction";
    if (!draft.has(first) || !first_counts || draft.number(second).value_or(0) == 0) continue;
    draft.refuse(second, fmt::format("{} is given, too, and Megatron-LM refuses both", draft.find(first)->called()),
                 "keep one of the two");
  }
}

void import_megatron_length(Draft& draft) {
  refuse_two_counts(draft);
  if (draft.take("training.steps", "train_iters")) return;
  if (const auto steps = steps_of_samples(draft, "train_samples"))
    return draft.set("training.steps", *steps, draft.find("train_samples"),
                     "in steps of the global batch, rounded down");
  if (!draft.has("train_samples"))
    draft.problem("neither --train-iters nor --train-samples is given", "give one of them");
}

void import_megatron_schedule(Draft& draft) {
  const std::string optimizer = draft.text("optimizer").value_or("adam");
  if (optimizer != "adam") draft.refuse("optimizer", "the optimizer is AdamW", "see [optimizer] for Muon");
  if (!draft.has("lr")) draft.problem("--lr is not given", "give the highest learning rate");
  draft.assume("optimizer.beta2", 0.999, "Megatron-LM's default");
  draft.assume("optimizer.weight_decay", 0.01, "Megatron-LM's default");
  const bool half_moments = draft.text("exp_avg_dtype").value_or("fp32") == "bf16";
  if (const auto second = draft.text("exp_avg_sq_dtype"); second && (*second == "bf16") != half_moments)
    draft.refuse("exp_avg_sq_dtype", "both moments have one type, float32 or bfloat16");
  if (half_moments) draft.set("optimizer.moments_dtype", "bfloat16", draft.find("exp_avg_dtype"));

  draft.set("lr_scheduler.rule", "transformers", nullptr, "Megatron-LM has the same formulas");
  const ForeignKey* style = draft.find("lr_decay_style");
  const std::string decay = draft.text("lr_decay_style").value_or("linear");
  if (decay != "linear" && decay != "cosine" && decay != "constant")
    return draft.refuse(*style, "the decay is linear, cosine or constant", "for WSD see lr_scheduler.decay_ratio");
  draft.set("lr_scheduler.decay_type", decay, style, style == nullptr ? "Megatron-LM's default" : "");
  const auto* steps = draft.value<int64_t>("training.steps");
  const auto* rate = draft.value<double>("optimizer.lr");
  int64_t end = steps == nullptr ? 0 : *steps;
  const ForeignKey* end_from = draft.find("lr_decay_iters");
  auto given = draft.whole(end_from);
  if (!given && (given = steps_of_samples(draft, "lr_decay_samples"))) end_from = draft.find("lr_decay_samples");
  if (given && *given != end && decay != "constant") draft.set("lr_scheduler.end_step", *given, end_from);
  end = given.value_or(end);
  const ForeignKey* share_key = draft.find("lr_warmup_fraction");
  if (const auto share = draft.number(share_key); share && !(*share >= 0 && *share < 1))
    draft.refuse(*share_key, "the warm-up is a share of the steps to the decay's end, from 0 to below 1",
                 "give the share of the training that ran: Megatron-LM refuses this one");
  else if (share)
    draft.set("lr_scheduler.warmup_steps", static_cast<int64_t>(std::nearbyint(*share * static_cast<double>(end))),
              share_key, "of the steps to the decay's end, rounded to a whole step");
  else if (const auto warmup = steps_of_samples(draft, "lr_warmup_samples"))
    draft.set("lr_scheduler.warmup_steps", *warmup, draft.find("lr_warmup_samples"), "in steps of the global batch");
  else
    draft.take_or("lr_scheduler.warmup_steps", "lr_warmup_iters", 0, "Megatron-LM's default");
  const auto least = draft.number("min_lr");
  if (least && *least > 0 && decay != "constant" && rate != nullptr && *rate > 0)
    draft.set("lr_scheduler.min_lr_factor", *least / *rate, draft.find("min_lr"), "as a share of lr");
}

void import_megatron_batch(Draft& draft) {
  ForeignLayout layout;
  layout.tensor = foreign_degree(draft, {"tensor_model_parallel_size"});
  layout.pipeline = foreign_degree(draft, {"pipeline_model_parallel_size"});
  layout.context = foreign_degree(draft, {"context_parallel_size"});
  take_launched_ranks(draft);
  if (draft.is_on("use_megatron_fsdp") || draft.is_on("use_custom_fsdp") || draft.is_on("use_torch_fsdp2")) {
    const std::string sharding = draft.text("data_parallel_sharding_strategy").value_or("optim_grads_params");
    layout.zero_stage = sharding == "optim_grads_params" ? 3 : sharding == "optim_grads" ? 2 : 1;
  } else if (!draft.is_on("use_distributed_optimizer")) {
    draft.note(
        "Without --use-distributed-optimizer Megatron-LM shared no moments. Hearth always shares them; results are "
        "the same.");
  }
  const ForeignKey *micro_key = draft.find("micro_batch_size"), *global_key = draft.find("global_batch_size");
  const int64_t micro = draft.whole(micro_key).value_or(0);
  if (micro_key == nullptr) return draft.problem("--micro-batch-size is not given", "give it");
  if (!is_count(micro)) return draft.refuse(*micro_key, "not a number of sequences");
  draft.take("training.global_batch_size", global_key);
  if (global_key != nullptr && !draft.options().layout) return set_layout(draft, layout, 1, nullptr);
  if (!resolve_layout(draft, layout, global_key != nullptr ? "the layout" : "the global batch")) return;
  if (layout.shard.value * layout.context.value == 1) layout.zero_stage = 1;
  if (global_key == nullptr)
    draft.set("training.global_batch_size", bounded_product({micro, layout.data()}), micro_key,
              fmt::format("{} x {} data-parallel ranks", micro, layout.data()));
  const bool pipeline = layout.pipeline.value > 1;
  if (!pipeline || !draft.options().layout) return set_layout(draft, layout, micro, micro_key);
  // With a pipeline, local_batch_size is what passes through it together: all of a rank's sequences.
  const auto* global = draft.value<int64_t>("training.global_batch_size");
  const int64_t all = global == nullptr ? micro : std::max<int64_t>(*global / layout.data(), 1);
  set_layout(draft, layout, all, global_key);
  draft.set("parallelism.pipeline_parallel_microbatch_size", micro, micro_key);
  const auto* layers = draft.value<int64_t>("model.n_layers");
  const ForeignKey* from = draft.find("num_layers_per_virtual_pipeline_stage");
  auto stage = draft.whole(from);
  if (const auto stages = draft.whole("num_virtual_stages_per_pipeline_rank");
      stages && *stages > 0 && layers != nullptr) {
    from = draft.find("num_virtual_stages_per_pipeline_rank");
    stage = *layers / std::max<int64_t>(*stages * layout.pipeline.value, 1);
  }
  draft.set("parallelism.pipeline_parallel_first_stage_less_layers", 0, nullptr, "Megatron-LM's stages are equal");
  draft.set("parallelism.pipeline_parallel_last_stage_less_layers", 0, nullptr);
  if (!stage) return;
  draft.set("parallelism.pipeline_parallel_schedule", "Interleaved1F1B", from);
  draft.set("parallelism.pipeline_parallel_layers_per_stage", *stage, from);
}

void import_megatron_precision(Draft& draft) {
  draft.set_if_on("training.mixed_precision_param", "bfloat16", "bf16");
  if (draft.has("fp8_format")) {
    draft.set("numerics.fp8", true, draft.find("fp8_format"), "each row has a factor of its own");
    const ForeignKey* wide = draft.first_of({"disable_fp8_wgrad", "no_fp8_wgrad"});
    const bool is_wide = draft.flag(wide).value_or(false);
    draft.set("numerics.fp8_recipe", is_wide ? "rowwise_hp_wgrad" : "rowwise", wide);
    draft.set("training.device", "cuda", nullptr, "float8 needs a GPU");
  }
  const ForeignKey* granularity = draft.find("recompute_granularity");
  const std::string level = draft.text(granularity).value_or("");
  if (level == "full" || draft.is_on("checkpoint_activations"))
    draft.set("memory.recompute", "block", level.empty() ? draft.find("checkpoint_activations") : granularity);
  else if (level == "selective" || draft.is_on("recompute_activations"))
    draft.set("memory.recompute", "attention", level.empty() ? draft.find("recompute_activations") : granularity);
}

// Datasets: "0.3 a 0.7 b", "a b" or "a".
struct MegatronBlend {
  std::vector<std::string> paths;
  std::vector<double> weights;  // empty, or of each path
};
MegatronBlend megatron_blend(Draft& draft, std::string_view name) {
  MegatronBlend blend;
  const std::vector<std::string> words = draft.texts(name).value_or(Names{});
  if (words.size() % 2 == 1 || words.empty() || !number_of({words.front()})) return {words, {}};
  for (size_t i = 0; i < words.size(); i += 2) {
    const auto weight = number_of({words[i]});
    if (!weight) {
      draft.refuse(name, "weights and paths do not take turns");
      return {};
    }
    blend.weights.push_back(*weight);
    blend.paths.push_back(words[i + 1]);
  }
  return blend;
}

void import_megatron_sources(Draft& draft, std::string_view name) {
  const ForeignKey* from = draft.find(name);
  const MegatronBlend blend = megatron_blend(draft, name);
  for (size_t i = 0; i < blend.paths.size(); ++i) {
    set_source(draft, blend.paths.size() == 1 ? -1 : static_cast<int64_t>(i), blend.paths[i], from);
    if (blend.paths.size() > 1 && !blend.weights.empty())
      draft.set(fmt::format("data.source.{}.weight", i), blend.weights[i], from);
  }
}

void import_megatron_validation(Draft& draft) {
  const auto every = draft.whole("eval_interval");
  const int64_t steps = draft.whole("eval_iters").value_or(100);
  if (!every || *every <= 0 || steps <= 0) return;
  draft.take("validation.freq", "eval_interval");
  draft.take_or("validation.steps", "eval_iters", steps, "Megatron-LM's default");
  const ForeignKey* from = draft.find("valid_data_path");
  const MegatronBlend blend = megatron_blend(draft, "valid_data_path");
  if (!blend.weights.empty()) draft.note("The weights of --valid-data-path are left out: each set is measured alone.");
  std::vector<std::string> names;
  for (size_t i = 0; i < blend.paths.size(); ++i) {
    names.push_back(new_name(foreign_name(blend.paths[i]), names));
    const std::string folder = fmt::format("data/{}-valid", names.back());
    draft.set(fmt::format("validation.set.{}.name", i), names.back(), from);
    draft.set(fmt::format("validation.set.{}.path", i), folder, from, build_command(folder, blend.paths[i]));
  }
}

void import_megatron_data(Draft& draft) {
  for (const std::string_view name : {"train_data_path", "valid_data_path"})
    if (draft.has(name) && draft.has("data_path"))
      draft.refuse(name, "--data-path is given, too, and Megatron-LM reads that alone", "keep one of the two");
  if (const ForeignKey* from = draft.first_of({"train_data_path", "data_path"}))
    import_megatron_sources(draft, from->name);
  else if (draft.is_on("mock_data"))
    draft.set("data.path", "data/mock", draft.find("mock_data"), "made-up tokens there: any dataset");
  else
    draft.problem("neither --data-path nor --train-data-path is given", "give the prefix of the .bin and .idx files");
  if (draft.has("data_path"))
    draft.note(fmt::format("Megatron-LM splits the data of --data-path: `hearth data build --split {}`.",
                           draft.has("split") ? draft.text("split").value_or("") : "969,30,1"));
  draft.note("The order of the sequences is Hearth's own, not Megatron-LM's.");
  draft.set_if_on("model.attention_scope", "document", "reset_attention_mask");
  if (!draft.is_on("reset_attention_mask") && draft.is_on("reset_position_ids"))
    draft.refuse("reset_position_ids",
                 "positions count from a window's begin, unless documents attend to themselves alone");
  import_megatron_validation(draft);
}

void import_megatron_checkpoints(Draft& draft) {
  if (!draft.is_set("checkpoint.interval"))
    draft.set("checkpoint.interval", 0, nullptr, "only the end is saved, without --save-interval");
  const ForeignKey* retained = draft.find("save_retain_interval");
  const auto kept = draft.whole(retained);
  if (kept && *kept > 0) {
    draft.set("checkpoint.keep_latest_k", 1, retained, "the newest,");
    draft.set("checkpoint.keep_every", *kept, retained, "and these");
  }
  draft.assume("checkpoint.keep_latest_k", 0, "Megatron-LM keeps all by default");
  draft.set_if_on("checkpoint.async_mode", "async", "async_save");
  set_run_folder(draft, "save");
  const ForeignKey *save = draft.find("save"), *from = draft.find("load");
  const bool goes_on = save != nullptr && from != nullptr && save->value.written() == from->value.written();
  const bool finetune = draft.is_on("finetune");
  const auto weights = draft.text("pretrained_checkpoint");
  const auto load = goes_on && !finetune ? std::nullopt : draft.text(from);
  const auto set_weights = [&draft](const std::string& folder, const ForeignKey* key) {
    draft.set("checkpoint.initial_load_path", "checkpoints/" + foreign_name(folder), key,
              "a checkpoint in a format that `hearth convert` reads");
  };
  if (weights) {
    set_weights(*weights, draft.find("pretrained_checkpoint"));
  } else if (load && !load->empty()) {
    set_weights(*load, from);
    if (!finetune) {
      draft.set("checkpoint.initial_load_model_only", false, nullptr, "Megatron-LM goes on with its step and moments");
      draft.set_if_on("checkpoint.exclude_from_loading", Names{"optimizer"}, "no_load_optim");
    }
  }
  if (draft.has("tensorboard_dir")) draft.set("metrics.enable_tensorboard", true, draft.find("tensorboard_dir"));
  if (const auto minutes = draft.number("distributed_timeout_minutes"))
    draft.set("comm.train_timeout_seconds", *minutes * 60, draft.find("distributed_timeout_minutes"), "in seconds");
  draft.assume("metrics.log_freq", 100, "Megatron-LM's default");
}

void import_megatron_keys(Draft& draft) {
  import_megatron_model(draft);
  import_megatron_batch(draft);
  import_megatron_length(draft);
  import_megatron_schedule(draft);
  import_megatron_precision(draft);
  import_megatron_data(draft);
  import_megatron_checkpoints(draft);
  draft.assume("training.seed", 1234, "Megatron-LM's default");
}

}  // namespace

Dialect megatron() {
  return {"megatron", "Megatron-LM", megatron_rules(), import_megatron_keys, /*files=*/false, /*commands=*/true};
}

}  // namespace hearth::config
