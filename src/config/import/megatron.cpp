// Megatron-LM's options, as its pretrain_gpt.py takes them.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "base/quantity.h"
#include "config/import/dialects.h"
#include "config/import/megatron_keys.h"

namespace hearth::config {
namespace {

void import_megatron_width(Draft& draft) {
  need_value(draft, "swiglu", {"true"}, "false", "the feed-forward is SwiGLU", "--swiglu");
  need_value(draft, "disable_bias_linear", {"true"}, "false", "linear layers have no biases", "--disable-bias-linear");
  const Value* dim = draft.value("model.dim");
  if (dim == nullptr) return draft.problem("--hidden-size is not given", "give it");
  if (const auto width = draft.whole("ffn_hidden_size")) {
    draft.set("model.hidden_dim", *width, draft.find("ffn_hidden_size"));
  } else {
    const double eight_thirds = 4 * static_cast<double>(std::get<int64_t>(*dim)) * 2 / 3;
    draft.set("model.hidden_dim", std::max<int64_t>(static_cast<int64_t>(eight_thirds / 64) * 64, 1), nullptr,
              "Megatron-LM's default: 8/3 of the width, cut to a multiple of 64");
  }
}

void import_megatron_model(Draft& draft) {
  import_megatron_width(draft);
  if (!draft.has("num_layers") && !draft.has("encoder_num_layers"))
    draft.problem("--num-layers is not given", "give it");
  if (!draft.has("num_attention_heads")) draft.problem("--num-attention-heads is not given", "give it");
  if (!draft.has("seq_length") && !draft.has("encoder_seq_length"))
    draft.problem("--seq-length is not given", "give it");
  const ForeignKey* groups = draft.find("group_query_attention");
  if (draft.flag("group_query_attention").value_or(false))
    draft.set("model.n_kv_heads", draft.whole("num_query_groups").value_or(1),
              draft.has("num_query_groups") ? draft.find("num_query_groups") : groups,
              draft.has("num_query_groups") ? "" : "Megatron-LM's default");
  const bool rotary = draft.flag("use_rotary_position_embeddings").value_or(false);
  if (!rotary)
    need_value(draft, "position_embedding_type", {"rope"}, "learned_absolute", "positions are rotary",
               "--position-embedding-type");
  need_value(draft, "normalization", {"RMSNorm"}, "LayerNorm", "norms are RMSNorm, without biases", "--normalization");
  need_value(draft, "hidden_dropout", {"0"}, "0.1", "there is no dropout", "--hidden-dropout");
  need_value(draft, "attention_dropout", {"0"}, "0.1", "there is no dropout", "--attention-dropout");
  const bool interleaved = draft.flag("rotary_interleaved").value_or(false);
  draft.set("model.rope_pairs", std::string(interleaved ? "interleaved" : "halves"), draft.find("rotary_interleaved"),
            interleaved ? "" : "as Megatron-LM rotates");
  if (draft.flag("use_rope_scaling").value_or(false))
    draft.set("model.rope_scaling_factor", draft.number("rope_scaling_factor").value_or(8),
              draft.find("use_rope_scaling"), "Llama 3.1's scaling of angles");
  if (draft.flag("add_qkv_bias").value_or(false)) draft.set("model.qkv_bias", true, draft.find("add_qkv_bias"));
  if (!draft.flag("untie_embeddings_and_output_weights").value_or(false))
    draft.set("model.enable_weight_tying", true, nullptr, "Megatron-LM's default");
  if (!draft.is_set("model.vocab_size")) {
    const bool whole =
        draft.flag("no_pad_vocab_size").value_or(false) || draft.flag("disable_pad_vocab_size").value_or(false);
    const int64_t multiple = draft.whole("make_vocab_size_divisible_by").value_or(128);
    const auto given = draft.whole("vocab_size");
    if (given && whole) {
      draft.set("model.vocab_size", *given, draft.find("vocab_size"));
    } else if (given && *given > 0 && multiple > 0 && multiple <= (1 << 20)) {
      const int64_t tensor = std::clamp<int64_t>(draft.whole("tensor_model_parallel_size").value_or(1), 1, 1 << 20);
      const int64_t padded = div_ceil(*given, multiple * tensor) * multiple * tensor;
      draft.set("model.vocab_size", padded, draft.find("vocab_size"),
                padded == *given ? "" : fmt::format("padded to a multiple of {} x {} ranks", multiple, tensor));
    } else {
      draft.note(
          fmt::format("Megatron-LM pads the vocabulary to a multiple of {} x tensor-model-parallel-size. Give "
                      "model.vocab_size, where its weights are to be continued.",
                      multiple));
    }
  }
  draft.set("model.init", std::string("normal"), nullptr, "as Megatron-LM begins");
  draft.set("model.output_init", std::string("scaled_normal"), nullptr);
  if (const auto std = draft.number("init_method_std"))
    draft.set("model.init_std", *std, draft.find("init_method_std"));
}

// Samples as steps of the global batch.
std::optional<int64_t> steps_of_samples(Draft& draft, std::string_view name) {
  const auto samples = draft.whole(name);
  const Value* batch = draft.value("training.global_batch_size");
  if (!samples || *samples <= 0 || batch == nullptr || std::get<int64_t>(*batch) <= 0) return std::nullopt;
  return *samples / std::get<int64_t>(*batch);
}

void import_megatron_length(Draft& draft) {
  if (const auto steps = draft.whole("train_iters"))
    return draft.set("training.steps", *steps, draft.find("train_iters"));
  if (const auto steps = steps_of_samples(draft, "train_samples"))
    return draft.set("training.steps", *steps, draft.find("train_samples"),
                     "in steps of the global batch, rounded down");
  if (!draft.has("train_samples"))
    draft.problem("neither --train-iters nor --train-samples is given", "give one of them");
}

void import_megatron_schedule(Draft& draft) {
  const std::string optimizer = draft.text("optimizer").value_or("adam");
  if (optimizer != "adam") draft.refuse(*draft.find("optimizer"), "the optimizer is AdamW", "see [optimizer] for Muon");
  if (!draft.has("lr")) draft.problem("--lr is not given", "give the highest learning rate");
  draft.assume("optimizer.beta2", 0.999, "Megatron-LM's default");
  draft.assume("optimizer.weight_decay", 0.01, "Megatron-LM's default");
  const bool half_moments = draft.text("exp_avg_dtype").value_or("fp32") == "bf16";
  if (const auto second = draft.text("exp_avg_sq_dtype"); second && (*second == "bf16") != half_moments)
    draft.refuse(*draft.find("exp_avg_sq_dtype"), "both moments have one type, float32 or bfloat16");
  if (half_moments) draft.set("optimizer.moments_dtype", std::string("bfloat16"), draft.find("exp_avg_dtype"));

  draft.set("lr_scheduler.rule", std::string("transformers"), nullptr, "Megatron-LM has the same formulas");
  const ForeignKey* style = draft.find("lr_decay_style");
  const std::string decay = draft.text("lr_decay_style").value_or("linear");
  if (decay != "linear" && decay != "cosine" && decay != "constant")
    return draft.refuse(*style, "the decay is linear, cosine or constant", "for WSD see lr_scheduler.decay_ratio");
  draft.set("lr_scheduler.decay_type", decay, style, style == nullptr ? "Megatron-LM's default" : "");
  const Value *steps = draft.value("training.steps"), *rate = draft.value("optimizer.lr");
  int64_t end = steps == nullptr ? 0 : std::get<int64_t>(*steps);
  const ForeignKey* end_from = draft.find("lr_decay_iters");
  auto given = draft.whole("lr_decay_iters");
  if (!given && (given = steps_of_samples(draft, "lr_decay_samples"))) end_from = draft.find("lr_decay_samples");
  if (given && *given != end && decay != "constant") draft.set("lr_scheduler.end_step", *given, end_from);
  end = given.value_or(end);
  if (const auto share = draft.number("lr_warmup_fraction"); share && *share > 0 && *share <= 1) {
    draft.set("lr_scheduler.warmup_steps", static_cast<int64_t>(std::nearbyint(*share * static_cast<double>(end))),
              draft.find("lr_warmup_fraction"), "of the steps to the decay's end, rounded to a whole step");
  } else if (const auto warmup = steps_of_samples(draft, "lr_warmup_samples")) {
    draft.set("lr_scheduler.warmup_steps", *warmup, draft.find("lr_warmup_samples"), "in steps of the global batch");
  } else {
    draft.set("lr_scheduler.warmup_steps", draft.whole("lr_warmup_iters").value_or(0), draft.find("lr_warmup_iters"),
              draft.has("lr_warmup_iters") ? "" : "Megatron-LM's default");
  }
  const auto least = draft.number("min_lr");
  if (least && *least > 0 && decay != "constant" && rate != nullptr && std::get<double>(*rate) > 0)
    draft.set("lr_scheduler.min_lr_factor", *least / std::get<double>(*rate), draft.find("min_lr"), "as a share of lr");
}

void import_megatron_batch(Draft& draft) {
  ForeignLayout layout;
  layout.tensor = foreign_degree(draft, {"tensor_model_parallel_size"});
  layout.pipeline = foreign_degree(draft, {"pipeline_model_parallel_size"});
  layout.context = foreign_degree(draft, {"context_parallel_size"});
  take_launched_ranks(draft);
  if (draft.flag("use_megatron_fsdp").value_or(false) || draft.flag("use_custom_fsdp").value_or(false) ||
      draft.flag("use_torch_fsdp2").value_or(false)) {
    const std::string sharding = draft.text("data_parallel_sharding_strategy").value_or("optim_grads_params");
    layout.zero_stage = sharding == "optim_grads_params" ? 3 : sharding == "optim_grads" ? 2 : 1;
  } else if (!draft.flag("use_distributed_optimizer").value_or(false)) {
    draft.note(
        "Without --use-distributed-optimizer Megatron-LM shared no moments. Hearth always shares them; results are "
        "the same.");
  }
  const ForeignKey *micro_key = draft.find("micro_batch_size"), *global_key = draft.find("global_batch_size");
  const int64_t micro = draft.whole("micro_batch_size").value_or(0);
  constexpr int64_t kMost = 1 << 20;
  if (micro < 1 || micro > kMost) {
    if (micro_key == nullptr)
      draft.problem("--micro-batch-size is not given", "give it");
    else
      draft.refuse(*micro_key, "not a number of sequences");
    return;
  }
  if (const auto global = draft.whole("global_batch_size"))
    draft.set("training.global_batch_size", *global, global_key);
  if (global_key != nullptr && !draft.options().layout) return set_layout(draft, layout, 1, nullptr);
  if (!resolve_layout(draft, layout, global_key != nullptr ? "the layout" : "the global batch")) return;
  if (layout.shard.value * layout.context.value == 1) layout.zero_stage = 1;
  if (global_key == nullptr)
    draft.set("training.global_batch_size", bounded_product({micro, layout.data()}), micro_key,
              fmt::format("{} x {} data-parallel ranks", micro, layout.data()));
  const bool pipeline = layout.pipeline.value > 1;
  if (!pipeline || !draft.options().layout) return set_layout(draft, layout, micro, micro_key);
  // With a pipeline, local_batch_size is what passes through it together: all of a rank's sequences.
  const Value* global = draft.value("training.global_batch_size");
  const int64_t all = global == nullptr ? micro : std::max<int64_t>(std::get<int64_t>(*global) / layout.data(), 1);
  set_layout(draft, layout, all, global_key);
  draft.set("parallelism.pipeline_parallel_microbatch_size", micro, micro_key);
  const Value* layers = draft.value("model.n_layers");
  auto stage = draft.whole("num_layers_per_virtual_pipeline_stage");
  const ForeignKey* from = draft.find("num_layers_per_virtual_pipeline_stage");
  if (const auto stages = draft.whole("num_virtual_stages_per_pipeline_rank");
      stages && *stages > 0 && layers != nullptr) {
    from = draft.find("num_virtual_stages_per_pipeline_rank");
    stage = std::get<int64_t>(*layers) / std::max<int64_t>(*stages * layout.pipeline.value, 1);
  }
  draft.set("parallelism.pipeline_parallel_first_stage_less_layers", int64_t{0}, nullptr,
            "Megatron-LM's stages are equal");
  draft.set("parallelism.pipeline_parallel_last_stage_less_layers", int64_t{0}, nullptr);
  if (!stage) return;
  draft.set("parallelism.pipeline_parallel_schedule", std::string("Interleaved1F1B"), from);
  draft.set("parallelism.pipeline_parallel_layers_per_stage", *stage, from);
}

void import_megatron_precision(Draft& draft) {
  if (draft.flag("bf16").value_or(false))
    draft.set("training.mixed_precision_param", std::string("bfloat16"), draft.find("bf16"));
  if (draft.has("fp8_format")) {
    draft.set("numerics.fp8", true, draft.find("fp8_format"), "each row has a factor of its own");
    draft.set("training.device", std::string("cuda"), nullptr, "float8 needs a GPU");
  }
  const std::string level = draft.text("recompute_granularity").value_or("");
  if (level == "full" || draft.flag("checkpoint_activations").value_or(false))
    draft.set("memory.recompute", std::string("block"),
              draft.find(level.empty() ? "checkpoint_activations" : "recompute_granularity"));
  else if (level == "selective" || draft.flag("recompute_activations").value_or(false))
    draft.set("memory.recompute", std::string("attention"),
              draft.find(level.empty() ? "recompute_activations" : "recompute_granularity"));
}

// Datasets: "0.3 a 0.7 b", "a b" or "a".
struct MegatronBlend {
  std::vector<std::string> paths;
  std::vector<double> weights;  // empty, or of each path
};
MegatronBlend megatron_blend(Draft& draft, std::string_view name) {
  MegatronBlend blend;
  const std::vector<std::string> words = draft.texts(name).value_or(std::vector<std::string>{});
  const auto number = [](const std::string& text) -> std::optional<double> {
    const ForeignValue value = plain_scalar(text);
    if (const auto* whole = std::get_if<int64_t>(&value.is)) return static_cast<double>(*whole);
    if (const auto* real = std::get_if<double>(&value.is)) return *real;
    return std::nullopt;
  };
  if (words.size() % 2 == 1 || words.empty() || !number(words.front())) return {words, {}};
  for (size_t i = 0; i < words.size(); i += 2) {
    const auto weight = number(words[i]);
    if (!weight) {
      draft.refuse(*draft.find(name), "weights and paths do not take turns");
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
  draft.set("validation.freq", *every, draft.find("eval_interval"));
  draft.set("validation.steps", steps, draft.find("eval_iters"),
            draft.has("eval_iters") ? "" : "Megatron-LM's default");
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
  const bool given = draft.has("train_data_path") || draft.has("data_path");
  if (given) import_megatron_sources(draft, draft.has("train_data_path") ? "train_data_path" : "data_path");
  if (!given && draft.flag("mock_data").value_or(false)) {
    draft.set("data.path", std::string("data/mock"), draft.find("mock_data"), "made-up tokens there: any dataset");
  } else if (!given) {
    draft.problem("neither --data-path nor --train-data-path is given", "give the prefix of the .bin and .idx files");
  }
  if (draft.has("data_path"))
    draft.note(fmt::format("Megatron-LM splits the data of --data-path: `hearth data build --split {}`.",
                           draft.has("split") ? draft.text("split").value_or("") : "969,30,1"));
  draft.note("The order of the sequences is Hearth's own, not Megatron-LM's.");
  const bool apart = draft.flag("reset_attention_mask").value_or(false);
  if (apart) draft.set("model.attention_scope", std::string("document"), draft.find("reset_attention_mask"));
  if (!apart && draft.flag("reset_position_ids").value_or(false))
    draft.refuse(*draft.find("reset_position_ids"),
                 "positions count from a window's begin, unless documents attend to themselves alone");
  import_megatron_validation(draft);
}

void import_megatron_checkpoints(Draft& draft) {
  if (!draft.is_set("checkpoint.interval"))
    draft.set("checkpoint.interval", int64_t{0}, nullptr, "only the end is saved, without --save-interval");
  const auto kept = draft.whole("save_retain_interval");
  if (kept && *kept > 0) {
    draft.set("checkpoint.keep_latest_k", int64_t{1}, draft.find("save_retain_interval"), "the newest,");
    draft.set("checkpoint.keep_every", *kept, draft.find("save_retain_interval"), "and these");
  }
  draft.assume("checkpoint.keep_latest_k", int64_t{0}, "Megatron-LM keeps all by default");
  if (draft.flag("async_save").value_or(false))
    draft.set("checkpoint.async_mode", std::string("async"), draft.find("async_save"));
  set_run_folder(draft, "save");
  const ForeignKey *save = draft.find("save"), *from = draft.find("load");
  const bool goes_on = save != nullptr && from != nullptr && save->value.written() == from->value.written();
  const bool finetune = draft.flag("finetune").value_or(false);
  const auto weights = draft.text("pretrained_checkpoint");
  const auto load = goes_on && !finetune ? std::nullopt : draft.text("load");
  if (weights) {
    draft.set("checkpoint.initial_load_path", "checkpoints/" + foreign_name(*weights),
              draft.find("pretrained_checkpoint"), "a checkpoint in a format that `hearth convert` reads");
  } else if (load && !load->empty()) {
    draft.set("checkpoint.initial_load_path", "checkpoints/" + foreign_name(*load), from,
              "a checkpoint in a format that `hearth convert` reads");
    if (!finetune) {
      draft.set("checkpoint.initial_load_model_only", false, nullptr, "Megatron-LM goes on with its step and moments");
      if (draft.flag("no_load_optim").value_or(false))
        draft.set("checkpoint.exclude_from_loading", Names{"optimizer"}, draft.find("no_load_optim"));
    }
  }
  if (draft.has("tensorboard_dir")) draft.set("metrics.enable_tensorboard", true, draft.find("tensorboard_dir"));
  if (const auto minutes = draft.number("distributed_timeout_minutes"))
    draft.set("comm.train_timeout_seconds", *minutes * 60, draft.find("distributed_timeout_minutes"), "in seconds");
  if (!draft.is_set("metrics.log_freq")) draft.assume("metrics.log_freq", int64_t{100}, "Megatron-LM's default");
}

void import_megatron_keys(Draft& draft) {
  import_megatron_model(draft);
  import_megatron_batch(draft);
  import_megatron_length(draft);
  import_megatron_schedule(draft);
  import_megatron_precision(draft);
  import_megatron_data(draft);
  import_megatron_checkpoints(draft);
  draft.assume("training.seed", int64_t{1234}, "Megatron-LM's default");
}

}  // namespace

Dialect megatron() {
  return {"megatron", "Megatron-LM", megatron_rules(), import_megatron_keys, /*files=*/false, /*commands=*/true};
}

}  // namespace hearth::config
